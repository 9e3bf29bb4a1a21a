"""The flags of speculative decoding: llama.cpp's names."""

import argparse
from typing import TYPE_CHECKING

from chenxing.terminal.numbers import at_least

if TYPE_CHECKING:
    from chenxing.engine import SpecOptions


def add_spec_flags(group: argparse._ActionsContainer) -> None:
    """For every command that answers."""
    add = group.add_argument
    help_type = "what drafts: none, ngram-simple (the text before), draft-simple (-md) (by default as -md is given)"
    add("--spec-type", metavar="TYPE", help=help_type)
    help_model = "a smaller model of the same vocabulary, which drafts"
    add("-md", "--model-draft", "--spec-draft-model", dest="model_draft", metavar="MODEL", help=help_model)
    help_max = "tokens of a draft at most; as many as save time are drafted; 0: none (16)"
    add("--spec-draft-n-max", type=at_least(0), default=16, metavar="N", help=help_max)
    add("--spec-draft-n-min", type=at_least(0), default=0, metavar="N", help="drafts of fewer are not tried (0)")


def spec_options(args: argparse.Namespace) -> "SpecOptions":
    """What add_spec_flags has read. Raises UsageError."""
    from chenxing.engine import SpecOptions

    return SpecOptions(args.spec_type, args.model_draft, args.spec_draft_n_max, args.spec_draft_n_min)

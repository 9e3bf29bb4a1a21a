"""Small tools with stable output for scripts: tokenize, detokenize, template, perplexity.

All but perplexity read the metadata of a GGUF file alone: no weights are loaded, vocabulary-only files are fine.
"""

import argparse
import json
import sys
from typing import Any

from chenxing.errors import ChenxingError, TemplateError, UsageError
from chenxing.terminal.args import (
    add_model_flags,
    add_template_flags,
    model_options,
    template_kwargs,
    template_override,
)
from chenxing.terminal.inputs import standard_input
from chenxing.terminal.load import load_model, open_vocabulary
from chenxing.terminal.numbers import one_or_more
from chenxing.terminal.original import original_text
from chenxing.terminal.saved import parse_conversation
from chenxing.terminal.token_lists import read_id_lists, read_json_lines


def add_parsers(subparsers: Any) -> None:
    """Adds the sub-parsers of the tools."""
    no_bos = "no BOS or EOS token is added, whatever the model asks for"
    parser = _add(subparsers, "tokenize", _tokenize, "text on stdin, a JSON list of token ids on stdout")
    parser.add_argument("--jsonl", action="store_true", help="one JSON string a line in, one list a line out")
    help_special = "take texts such as <s> or <|im_end|> as plain text, not as control tokens"
    parser.add_argument("--no-special", "--no-parse-special", dest="special", action="store_false", help=help_special)
    parser.add_argument("--no-bos", dest="bos", action="store_false", help=no_bos)

    parser = _add(subparsers, "detokenize", _detokenize, "JSON lists of token ids on stdin, their text on stdout")
    parser.add_argument("--jsonl", action="store_true", help="one list a line in, one JSON string a line out")
    help_keep = "the ids were made with --no-bos: take no BOS or EOS token away"
    parser.add_argument("--no-bos", dest="bos", action="store_false", help=help_keep)

    parser = _add(subparsers, "template", _template, "a JSON list of messages on stdin, the model's prompt on stdout")
    add_template_flags(parser)

    parser = _add(subparsers, "perplexity", _perplexity, "the perplexity of a text, as llama-perplexity computes it")
    parser.add_argument("-f", "--file", required=True, metavar="FILE", help="the text")
    parser.add_argument("--chunks", type=one_or_more, metavar="N", help="chunks to score; -1: all (-1)")
    help_escape = r"take \n \t \" \\ \xHH in the text as they are, which llama-perplexity reads as escapes"
    parser.add_argument("--no-escape", dest="escape", action="store_false", help=help_escape)
    add_model_flags(parser, n_ctx=512, least_ctx=4)


def _add(subparsers: Any, name: str, run: Any, summary: str) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    parser.add_argument("model", metavar="MODEL", help="as for chenxing run")
    parser.set_defaults(run=run)
    return parser


def _tokenize(args: argparse.Namespace) -> int:
    _, tokenizer = open_vocabulary(args.model)
    source = standard_input()
    texts = read_json_lines(source) if args.jsonl else [source.read()]
    for text in texts:
        ids = tokenizer.encode(text, add_special=args.bos, parse_special=args.special)
        print(json.dumps(ids), flush=args.jsonl)
    return 0


def _detokenize(args: argparse.Namespace) -> int:
    _, tokenizer = open_vocabulary(args.model)
    for ids in read_id_lists(standard_input(), tokenizer.n_vocab):
        text = original_text(tokenizer, ids, added=args.bos)
        if args.jsonl:
            # bytes that are no UTF-8 stay exact as U+DC80..U+DCFF (PEP 383), which `tokenize --jsonl` takes back
            print(json.dumps(text.decode("utf-8", "surrogateescape")), flush=True)
        else:
            sys.stdout.buffer.write(text)
    return 0


def _template(args: argparse.Namespace) -> int:
    from chenxing.chat import load_template

    override, kwargs = template_override(args), template_kwargs(args)
    model, tokenizer = open_vocabulary(args.model)
    template = load_template(model.metadata, tokenizer, override=override)
    if template is None:
        raise TemplateError(f"{args.model} has no chat template (a base model): --chat-template chatml names one")
    body = parse_conversation(standard_input().read(), "standard input")
    variables = body | kwargs
    messages = variables.pop("messages")
    variables.pop("self", None)  # Jinja's own name: no template can read such a variable
    try:
        prompt = template.render(messages, **variables)
    except UsageError as error:
        raise ChenxingError(f"standard input: {error}") from error
    sys.stdout.write(prompt.plain)
    return 0


def _perplexity(args: argparse.Namespace) -> int:
    from chenxing.terminal.perplexity import perplexity, read_text

    text = read_text(args.file, escape=args.escape)
    llm, _ = load_model(args.model, **model_options(args), disk_cache=False)
    for notice in llm.notices:
        print(f"chenxing: {notice}", file=sys.stderr)
    try:
        figure = perplexity(llm, text, args.n_ctx, args.chunks, sys.stderr)
    finally:
        llm.close()
    print(f"Final estimate: PPL = {figure.ppl:.4f} +/- {figure.error:.5f}", file=sys.stderr)
    print(f"ppl: {figure.ppl:.4f}")
    return 0

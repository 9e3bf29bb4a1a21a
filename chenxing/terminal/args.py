"""The flags of `chenxing run`: llama.cpp's names and defaults where llama.cpp has them."""

import argparse
import json
from typing import Any

from chenxing.config import parse_size
from chenxing.errors import UsageError
from chenxing.kernels.attention_layout import KV_TYPES
from chenxing.terminal.escapes import unescape
from chenxing.terminal.grammar_flags import add_grammar_flags
from chenxing.terminal.inputs import read_text_file
from chenxing.terminal.numbers import at_least, one_or_more
from chenxing.terminal.sampling_flags import add_sampling_flags
from chenxing.terminal.spec_flags import add_spec_flags

_DESCRIPTION = """\
Answers in the terminal. MODEL is a file, the name of a pulled model, hf:owner/repo[:QUANT or file], or a short name
such as smollm2. Without a prompt it opens a chat; with a prompt, a file or piped text it prints one answer.
"""
_EPILOG = """\
examples:
  chenxing run smollm2
  chenxing run smollm2 -p "Why is the sky blue?" --temp 0
  chenxing run smollm2 -f notes.txt -p "Summarise this." --json
  git diff | chenxing run smollm2 -p "Write a commit message for this change."
"""

# names of LLM.stream
_TAKEN = {"self", "messages", "prompt", "params", "max_tokens", "stop", "stop_token_ids", "raw", "on_prefill"}
_TAKEN |= {"response_format", "json_schema", "grammar", "regex", "grammar_after"}


def add_parsers(subparsers: Any) -> None:
    """Adds the sub-parser of `run`."""
    parser = subparsers.add_parser(
        "run",
        help="chat with a model, or print one answer",
        usage="chenxing run [flags] MODEL [PROMPT]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("text", nargs="?", metavar="PROMPT", help="the same as -p PROMPT")
    _add_input_flags(parser.add_argument_group("prompt"))
    answer = parser.add_argument_group("answer")
    _add_output_flags(answer)
    add_grammar_flags(answer)
    add_model_flags(parser.add_argument_group("model"))
    add_cache_flags(parser.add_argument_group("cache of prompts"))
    add_template_flags(parser.add_argument_group("chat template"))
    add_spec_flags(parser.add_argument_group("speculative decoding, which changes no answer"))
    add_sampling_flags(
        parser.add_argument_group("sampling", "in brackets: what holds if neither you nor the model says otherwise")
    )
    parser.set_defaults(run=_handle)


def add_model_flags(group: argparse._ActionsContainer, *, n_ctx: int = 0, least_ctx: int = 0) -> None:
    """For every command that loads weights; `n_ctx` is the default of -c, `least_ctx` the least."""
    what = (
        f"tokens of a chunk ({n_ctx})" if n_ctx else "tokens that the context holds; 0: what the model was made for (0)"
    )
    group.add_argument(
        "-c", "--ctx-size", dest="n_ctx", type=at_least(least_ctx), default=n_ctx, metavar="N", help=what
    )
    help_threads = "threads; -1: the physical cores that this process may use (-1)"
    group.add_argument("-t", "--threads", dest="n_threads", type=one_or_more, metavar="N", help=help_threads)
    for key, name in (("k", "keys"), ("v", "values")):
        what = f"how {name} are kept, the same for both: {', '.join(KV_TYPES)} (f16)"
        group.add_argument(f"-ct{key}", f"--cache-type-{key}", choices=KV_TYPES, metavar="TYPE", help=what)
    group.add_argument("--isa", metavar="NAME", help="instruction set of the kernels; `chenxing doctor` names them")
    add_weights_flag(group)
    help_cache = "pack the weights in memory: look for no packed file and write none"
    group.add_argument("--no-weight-cache", dest="weight_cache", action="store_false", help=help_cache)


def add_weights_flag(group: argparse._ActionsContainer) -> None:
    what = "int8: matrices of an F16, BF16 or F32 file with a byte a weight, outliers apart (as in the file)"
    group.add_argument("--weights", choices=("int8",), help=what)


def model_options(args: argparse.Namespace) -> dict[str, Any]:
    """What add_model_flags has read, as load_model takes it. Raises UsageError."""
    options = {name: getattr(args, name) for name in ("n_ctx", "n_threads", "isa", "weight_cache", "weights")}
    return options | {"kv_type": _kv_type(args)}


def add_cache_flags(group: argparse._ActionsContainer) -> None:
    """For every command that answers: where what was computed of prompts is kept for the next ones."""
    help_disk = "disk for all models' prompts, as in 8GiB (a tenth of the free space, at most 16GiB)"
    group.add_argument("--cache-disk", metavar="SIZE", help=help_disk)
    help_ram = "memory for conversations beside the current one, as in 2GiB (a quarter of what is free, at most 8GiB)"
    group.add_argument("-cram", "--cache-ram", metavar="SIZE", help=help_ram)
    help_off = "keep prompts in memory only: look for none on disk and write none"
    group.add_argument("--no-disk-cache", dest="disk_cache", action="store_false", help=help_off)


def cache_options(args: argparse.Namespace) -> dict[str, Any]:
    """What add_cache_flags has read, as load_model takes it. Raises UsageError."""
    if args.cache_disk is not None and not args.disk_cache:
        raise UsageError("--cache-disk and --no-disk-cache exclude each other")
    return {
        "disk_cache": args.disk_cache,
        "cache_disk_bytes": parse_size("--cache-disk", args.cache_disk),
        "cache_ram_bytes": parse_size("-cram/--cache-ram", _mebibytes(args.cache_ram)),
    }


def _mebibytes(text: str | None) -> str | None:
    """llama-server's spelling of --cache-ram is a number without a unit."""
    return f"{text}MiB" if text and text.isdecimal() else text


def _kv_type(args: argparse.Namespace) -> str:
    """The type of keys and values; one flag stands for both. Raises UsageError where they differ."""
    k, v = args.cache_type_k, args.cache_type_v
    if k and v and k != v:
        raise UsageError(f"-ctk {k} and -ctv {v}: keys and values are kept in one type, give both flags the same")
    return str(k or v or "f16")


def add_template_flags(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add("--chat-template", metavar="TEMPLATE", help="Jinja text or a built-in template's name, not the model's own")
    add("--chat-template-file", metavar="FILE", help="the same from a file")
    add("--chat-template-kwargs", metavar="JSON", help='values for the template, as in {"enable_thinking": false}')
    add("--jinja", action="store_true", help="accepted for llama.cpp's sake: templates are always Jinja")


def _add_input_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("-p", "--prompt", metavar="TEXT", help="the prompt; text piped into stdin or -f stands before it")
    add("-f", "--file", metavar="FILE", help="a file with the prompt; - is stdin")
    add("-sys", "--system-prompt", metavar="TEXT", help="the system prompt")
    add("-sysf", "--system-prompt-file", metavar="FILE", help="a file with the system prompt")
    add("--raw", action="store_true", help="complete the text as it is, without the chat template")
    add("-e", "--escape", action="store_true", default=True, help=r"read \n \t \" \\ \xHH in -p and -r (on)")
    add("--no-escape", dest="escape", action="store_false", help="take those texts as they are")


def _add_output_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    help_length = "tokens of an answer at most; -1: until the model ends it (-1)"
    add("-n", "--predict", "--n-predict", dest="n_predict", default="-1", metavar="N", help=help_length)
    help_stop = "end the answer before this text; may be repeated"
    add("-r", "--reverse-prompt", action="append", default=[], metavar="TEXT", help=help_stop)
    add("--json", action="store_true", help="print one JSON object with the text, the token counts and the timings")
    add("-v", "--verbose", action="store_true", help="say on stderr what is loaded and how fast it was")


def _handle(args: argparse.Namespace) -> int:
    from chenxing.terminal.run import run

    return run(args)


def typed_text(args: argparse.Namespace, text: str) -> str:
    """A text of the command line, with its escapes read unless --no-escape."""
    return unescape(text) if args.escape else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def typed_prompt(args: argparse.Namespace) -> str | None:
    """The prompt of the command line, without files and pipes. Raises UsageError if it is given twice."""
    if args.prompt is not None and args.text is not None:
        raise UsageError(f"the prompt is given twice: as -p and as {args.text!r}")
    text = args.text if args.prompt is None else args.prompt
    return None if text is None else typed_text(args, text)


def template_override(args: argparse.Namespace) -> str | None:
    """The template that the user gave instead of the model's own. Raises UsageError, ChenxingError for the file."""
    if args.chat_template is not None and args.chat_template_file is not None:
        raise UsageError("--chat-template and --chat-template-file exclude each other")
    return args.chat_template if args.chat_template_file is None else read_text_file(args.chat_template_file)


def template_kwargs(args: argparse.Namespace) -> dict[str, Any]:
    """The object of --chat-template-kwargs. Raises UsageError if it is none."""
    if args.chat_template_kwargs is None:
        return {}
    try:
        value = json.loads(args.chat_template_kwargs)
    except json.JSONDecodeError as error:
        raise UsageError(f"--chat-template-kwargs: expected a JSON object, found {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"--chat-template-kwargs: expected a JSON object, found {args.chat_template_kwargs}")
    if taken := sorted(_TAKEN & value.keys()):
        raise UsageError(f"--chat-template-kwargs: {taken[0]} is not the template's to know: expected other names")
    return value


def system_prompt(args: argparse.Namespace) -> str | None:
    """The text of -sys or -sysf. Raises UsageError, ChenxingError for the file."""
    if args.system_prompt is not None and args.system_prompt_file is not None:
        raise UsageError("--system-prompt and --system-prompt-file exclude each other")
    return args.system_prompt if args.system_prompt_file is None else read_text_file(args.system_prompt_file)

"""`chenxing run`: checks what was given, loads the model, then chats or answers once."""

import argparse
import sys
from dataclasses import replace

from chenxing.errors import UsageError
from chenxing.terminal import last_model
from chenxing.terminal.args import (
    cache_options,
    model_options,
    system_prompt,
    template_kwargs,
    template_override,
    typed_prompt,
    typed_text,
)
from chenxing.terminal.describe import describe
from chenxing.terminal.grammar_flags import given_grammar
from chenxing.terminal.inputs import PipedInput, joined_prompt, piped_input, read_text_file
from chenxing.terminal.load import load_model
from chenxing.terminal.oneshot import answer_as_json, answer_once
from chenxing.terminal.progress import ProgressLine
from chenxing.terminal.render import Screen
from chenxing.terminal.sampling_flags import given_sampling
from chenxing.terminal.session import Options, Session
from chenxing.terminal.settable import read_length
from chenxing.terminal.spec_flags import spec_options


def run(args: argparse.Namespace) -> int:
    """Runs `chenxing run`. Whatever can be wrong with flags and files is found before the model is loaded."""
    prompt, piped = typed_prompt(args), piped_input()
    interactive = prompt is None and args.file is None and piped is None
    if interactive:
        _check_interactive(args)
    system = system_prompt(args)
    if args.raw and system is not None:
        raise UsageError("--raw takes no system prompt: it completes the text as it is")
    file_text = read_text_file(args.file) if args.file not in (None, "-") else None
    max_tokens, kwargs = read_length(args.n_predict, "-n/--predict"), template_kwargs(args)
    sampling, form = given_sampling(args), given_grammar(args)
    stop = tuple(typed_text(args, text) for text in args.reverse_prompt)
    options = model_options(args) | cache_options(args)
    options |= {"chat_template": template_override(args), "speculation": spec_options(args)}

    llm, load_ms = load_model(args.model, **options)
    try:
        chosen = Options(replace(llm.sampling_defaults, **sampling), max_tokens, stop, kwargs, args.raw, form)
        session = Session(llm, chosen)
        session.system = system
        _introduce(session, args)
        if interactive:
            last_model.remember(args.model)
            return _chat(session)
        prompt = _whole_prompt(args, prompt, file_text, piped)
        progress = ProgressLine(sys.stderr)
        if args.json:
            return answer_as_json(session, prompt, progress, model=args.model, load_ms=load_ms)
        return answer_once(session, prompt, progress, verbose=args.verbose)
    finally:
        llm.close()


def _check_interactive(args: argparse.Namespace) -> None:
    if args.json:
        raise UsageError("--json needs a prompt: give -p TEXT or -f FILE, or pipe text into stdin")
    if not sys.stdout.isatty():
        raise UsageError("a chat needs a terminal: give -p TEXT or -f FILE, or pipe text into stdin")


def _whole_prompt(args: argparse.Namespace, prompt: str | None, file_text: str | None, piped: PipedInput | None) -> str:
    pipe_only = prompt is None and file_text is None
    whole = joined_prompt(prompt, file_text, piped, wait=pipe_only or args.file == "-")
    if not whole:
        raise UsageError("the prompt is empty: give -p TEXT or -f FILE, or pipe text into stdin")
    return whole


def _introduce(session: Session, args: argparse.Namespace) -> None:
    """What a person should know before the first answer, on stderr."""
    llm = session.llm
    if llm.template is None and not args.raw:
        print(f"chenxing: {args.model} has no chat template (a base model): it completes plain text", file=sys.stderr)
    for notice in llm.notices:
        print(f"chenxing: {notice}", file=sys.stderr)
    if args.verbose:
        for line in describe(llm, given_threads=args.n_threads):
            print(line, file=sys.stderr)


def _chat(session: Session) -> int:
    from chenxing.terminal.chat import Chat

    screen, llm = Screen(sys.stdout), session.llm
    screen.note(f"{llm.path.name} · {llm.n_ctx} tokens of context · {llm.n_threads} threads · {llm.isa} · /help\n")
    return Chat(session, screen, ProgressLine(sys.stderr)).run()

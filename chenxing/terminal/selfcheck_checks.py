"""The checks of `chenxing selfcheck`. Each says in a few words what it compared, or raises Broken with what differs."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chenxing.engine import CacheRoom, Engine
from chenxing.errors import ChenxingError
from chenxing.kernels.isa import host_features, supported
from chenxing.kernels.library import KernelLibrary
from chenxing.sampling import SamplingParams
from chenxing.terminal.selfcheck_subject import (
    N_ANSWER,
    N_PROMPT,
    Answer,
    Subject,
    ask,
    digest,
    digests,
    run,
)

_GREEDY = SamplingParams(temp=0.0)
_SAMPLED = SamplingParams(seed=7)
_N_SHARED = 70  # tokens that two prompts have in common: pages, and a part of one
_N_TOGETHER = 4
_N_BRIEF = 40  # tokens of a prompt for instruction sets, the plainest of which is many times slower


class Broken(Exception):
    """A promise that does not hold here, in one sentence."""


class Unchecked(Exception):
    """Why there is nothing to compare, in one sentence."""


@dataclass(frozen=True)
class Verdict:
    """text: what was compared, or what is wrong; passed: None if there was nothing to compare."""

    title: str
    passed: bool | None
    seconds: float
    text: str


def judge(title: str, check: Callable[[Subject], str], subject: Subject) -> Verdict:
    """Run one check. Whatever it raises is its verdict."""
    start = time.perf_counter()
    passed: bool | None
    try:
        passed, text = True, check(subject)
    except Unchecked as reason:
        passed, text = None, str(reason)
    except (Broken, ChenxingError) as error:
        passed, text = False, str(error)
    except Exception as error:
        passed, text = False, f"stopped by {type(error).__name__}{f': {error}' if str(error) else ''}"
    return Verdict(title, passed, time.perf_counter() - start, text)


def same_text_twice(subject: Subject) -> str:
    """Greedy and with a seed, in two engines that know nothing of each other."""
    found = []
    for _ in range(2):
        with subject.engine() as engine:
            answers = [ask(subject, engine, subject.prompt(), params) for params in (_GREEDY, _SAMPLED)]
            run(engine)
            found.append([_token_ids(answer) for answer in answers])
    for kind, first, second in zip(("greedy", "seeded"), *found, strict=True):
        if first != second:
            raise Broken(f"the {kind} answer was another one the second time, from token {_split(first, second)} on")
    return f"greedy and with a seed, {N_ANSWER} tokens each"


def any_threads(subject: Subject) -> str:
    """Logits of a prompt and of tokens one by one."""
    other = 1 if subject.n_threads > 1 else 2
    rows = []
    for n_threads in (subject.n_threads, other):
        with subject.engine(n_threads=n_threads) as engine:
            rows.append(_prompt_and_more(subject, engine, N_PROMPT))
    _same(rows[0], rows[1], f"{other} and {subject.n_threads} threads")
    return f"1 and {max(other, subject.n_threads)} threads, {len(rows[0])} rows of logits"


def any_chunks(subject: Subject) -> str:
    """A prompt at once and its tokens one by one."""
    ids = subject.prompt()
    with subject.engine() as engine:
        whole = digests(engine.logits(ids))
        single = [digest(engine.prompt(ids[:1])[1])] + [digest(engine.append(token)) for token in ids[1:]]
        at_once = digest(engine.logits(ids, len(ids) - 1)[0])
    _same(whole, single, "a prompt in pieces and its tokens one by one")
    _same(whole[-1:], [at_once], "a prompt in pieces and at once")
    return f"{len(ids)} tokens at once, in pieces and one by one"


def alone_or_together(subject: Subject) -> str:
    """Every row of logits that a request chooses from, among others and alone."""
    params = (_GREEDY, _SAMPLED)
    with subject.engine(n_ctx=_N_TOGETHER * 256) as engine:
        together = [ask(subject, engine, subject.prompt(i), params[i % 2]) for i in range(_N_TOGETHER)]
        run(engine)
    with subject.engine() as engine:
        for i, answer in enumerate(together):
            alone = ask(subject, engine, subject.prompt(i), params[i % 2])
            run(engine)
            if _token_ids(alone) != _token_ids(answer):
                raise Broken(f"answer {i + 1} of {_N_TOGETHER} was another one among others than alone")
            _same(alone.rows, answer.rows, "a request alone and among others")
    return f"{_N_TOGETHER} requests at once, then each alone"


def cache_hits(subject: Subject) -> str:
    """How many tokens a second request finds, and that it goes on as if it had computed them."""
    ids = subject.prompt()
    other = _branch(subject, ids)
    with subject.engine() as engine:
        cold = [digest(engine.logits(prompt, len(prompt) - 1)[0]) for prompt in (ids, other)]
        for prompt, wanted, expected in ((ids, 0, cold[0]), (ids, len(ids) - 1, cold[0]), (other, _N_SHARED, cold[1])):
            _hit(engine, prompt, wanted, expected, "in memory")
    return f"{len(ids) - 1} of {len(ids)} tokens of the same prompt, {_N_SHARED} of one that goes on otherwise"


def restored_prefix(subject: Subject) -> str:
    """The same from the disk, after everything was closed."""
    ids, room = subject.prompt(), subject.on_disk("restored")
    with subject.engine(room=room) as engine:
        cold = digest(engine.logits(ids, len(ids) - 1)[0])
        engine.prompt(ids[:_N_SHARED])
    for wanted in (_N_SHARED, len(ids) - 1):
        with subject.engine(room=room) as engine:
            _hit(engine, ids, wanted, cold, "on disk")
            if engine.n_from_disk != wanted:
                raise Broken(f"{wanted} tokens were to be restored from disk, {engine.n_from_disk} were")
            if n_damaged := engine.cache_stats.n_damaged:
                raise Broken(f"{n_damaged} pages on disk were not what had been written")
    return f"{_N_SHARED} and {len(ids) - 1} of {len(ids)} tokens from disk, the same logits"


def roll_back(subject: Subject) -> str:
    """Tokens that are taken back leave no trace."""
    ids = subject.prompt()
    other = _branch(subject, ids)
    with subject.engine() as engine:
        cold = digests(engine.logits(other, _N_SHARED))
        engine.prompt(ids)
        engine.truncate(_N_SHARED)
        after = [digest(engine.append(token)) for token in other[_N_SHARED:]]
    _same(cold, after, "a conversation that was rolled back and one that never went there")
    return f"back from {len(ids)} tokens to {_N_SHARED}, and on by {len(after)}"


def conserved_pages(subject: Subject) -> str:
    """More requests than fit, some cancelled: at the end nobody holds a page."""
    with subject.engine(room=CacheRoom(0, 0), n_ctx=N_PROMPT + N_ANSWER) as engine:
        answers = [ask(subject, engine, subject.prompt(i), _GREEDY) for i in range(2 * _N_TOGETHER)]
        for answer in answers[1::3]:
            answer.request.cancel()
        for _ in range(3):
            engine.step()
        answers[0].request.cancel()
        run(engine)
        engine.check_integrity()
        stats = engine.stats()
    n_done = sum(answer.request.finish_reason == "length" for answer in answers)
    n_gone = sum(answer.request.finish_reason == "cancelled" for answer in answers)
    if n_done + n_gone != len(answers):
        raise Broken(f"of {len(answers)} requests {n_done} were answered and {n_gone} cancelled: the others are lost")
    if stats.n_free != stats.n_pages:
        raise Broken(f"{stats.n_pages - stats.n_free} of {stats.n_pages} pages are held by nobody")
    return f"{stats.n_pages} pages, {len(answers)} requests, {n_gone} of them cancelled"


def instruction_sets(subject: Subject) -> str:
    """Every one that this CPU has, of those that kernels are compiled for unless all are wanted."""
    best = subject.library.isa
    with subject.engine() as engine:
        expected = _prompt_and_more(subject, engine, _N_BRIEF)
    others = [KernelLibrary(isa) for isa in supported(host_features()) if isa.name != best.name]
    wanted = [other for other in others if subject.all_isas or other.has(subject.library.addresses)]
    left = [other.isa.name for other in others if other not in wanted]
    note = f"--all-isas compiles kernels for {', '.join(left)} too, and compares them" if left else ""
    if not wanted:
        raise Unchecked(note or f"this CPU has {best.name} alone")
    for library in wanted:
        with subject.engine(library=library) as engine:
            _same(expected, _prompt_and_more(subject, engine, _N_BRIEF), f"{best.name} and {library.isa.name}")
    names = ", ".join([best.name, *(library.isa.name for library in wanted)])
    return f"{names} ({note})" if note else names


CHECKS: dict[str, Callable[[Subject], str]] = {
    "the same text twice": same_text_twice,
    "any number of threads": any_threads,
    "any cut of a prompt": any_chunks,
    "alone or among others": alone_or_together,
    "known prompts are found": cache_hits,
    "restored after a restart": restored_prefix,
    "rolled back without a trace": roll_back,
    "no page is lost": conserved_pages,
    "any instruction set": instruction_sets,
}
"""By what is promised, in the order in which they are run."""


def _prompt_and_more(subject: Subject, engine: Engine, n_prompt: int) -> list[str]:
    """Digests of the logits of a prompt and of a few tokens after it."""
    ids = subject.prompt()[:n_prompt]
    rows = digests(engine.logits(ids, len(ids) // 2))
    logits = engine.prompt(ids)[1]
    rows.append(digest(logits))
    for _ in range(n_prompt // 8):
        logits = engine.append(int(np.argmax(logits)))
        rows.append(digest(logits))
    return rows


def _branch(subject: Subject, ids: list[int]) -> list[int]:
    """A prompt that shares exactly _N_SHARED tokens with ids."""
    return [*ids[:_N_SHARED], subject.other(ids[_N_SHARED]), *ids[:20]]


def _hit(engine: Engine, ids: list[int], wanted: int, expected: str, where: str) -> None:
    n_cached, logits = engine.prompt(ids)
    if n_cached != wanted:
        raise Broken(f"{wanted} tokens of a prompt were to be found {where}, {n_cached} were")
    if digest(logits) != expected:
        raise Broken(f"with {n_cached} tokens found {where} the logits are not those of a cold start")


def _same(a: list[str], b: list[str], what: str) -> None:
    if a != b:
        raise Broken(f"{what} give different logits, from row {_split(a, b)} of {len(a)} on")


def _split(a: list, b: list) -> int:
    """Number, from 1, of the first item that differs."""
    return 1 + next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _token_ids(answer: Answer) -> list[int]:
    if answer.request.error:
        raise answer.request.error
    return answer.request.token_ids

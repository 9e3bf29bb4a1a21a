"""From parameters to a list of steps: which samplers act, in which order, with which arguments."""

from collections.abc import Callable, Collection
from itertools import pairwise

from chenxing.sampling.adjust import penalties
from chenxing.sampling.candidates import Candidates
from chenxing.sampling.dry import Breakers, dry
from chenxing.sampling.history import History
from chenxing.sampling.infill import infill
from chenxing.sampling.params import SamplingParams
from chenxing.sampling.temperature import GREEDY_BELOW, dynamic_temp
from chenxing.sampling.truncation import min_p, top_k, top_n_sigma, top_p, top_p_then_min_p
from chenxing.sampling.typical import typ_p
from chenxing.sampling.xtc import xtc

Step = Callable[[Candidates], Candidates]

_FUSED = ("top_p", "min_p")  # where they follow each other, as they do by default, they are one step

_KEEP_THE_LIKELIEST = frozenset({"top_n_sigma", "top_k", "top_p", "min_p"})


def is_greedy(params: SamplingParams) -> bool:
    """True if the temperature always leaves the likeliest token only, so that nothing is left to do after it."""
    has_temperature = params.mirostat != 0 or "temperature" in params.samplers
    return has_temperature and params.temp < GREEDY_BELOW and (params.mirostat != 0 or params.dynatemp_range == 0)


def build_chain(
    params: SamplingParams,
    history: History,
    token_text: Callable[[int], bytes] | None,
    xtc_uniform: Callable[[], float],
    eog_ids: Collection[int] = (),
) -> list[Step]:
    """The steps that have an effect, in the order of params.samplers (which mirostat does without).

    history      what the penalties look back on; the steps read it whenever they run
    token_text   the bytes of a token; needed where dry or infill is on
    xtc_uniform  gives the random number for the position that is being sampled
    eog_ids      the model's tokens that end an answer

    A greedy chain ends before its temperature, which only finds the likeliest token; so truncations just before that
    have no effect either.
    """
    steps = {name: _step(name, params, history, token_text, xtc_uniform) for name in params.samplers}
    if "infill" in steps:
        assert token_text is not None, "infill needs the texts of tokens"
        text, ends = token_text, frozenset(eog_ids)
        steps["infill"] = lambda c: infill(c, ends, text)
    names = [name for name in params.samplers if steps[name] is not None]
    if is_greedy(params):
        names = names[: names.index("temperature")]
        while names and names[-1] in _KEEP_THE_LIKELIEST:
            names.pop()
    acting = [name for name in names if steps[name] is not None]
    fused = _FUSED in pairwise(acting) and params.min_keep <= 1 and 0 < params.min_p < 1
    if fused:
        at = acting.index(_FUSED[0])
        acting[at : at + 2] = ["top_p then min_p"]
        steps[acting[at]] = lambda c: top_p_then_min_p(c, params.top_p, params.min_p)
    return [step for name in acting if (step := steps[name]) is not None]


def _step(
    name: str,
    p: SamplingParams,
    history: History,
    token_text: Callable[[int], bytes] | None,
    xtc_uniform: Callable[[], float],
) -> Step | None:
    """The sampler with its arguments; None if they switch it off."""
    penalty = p.penalty_repeat, p.penalty_freq, p.penalty_present
    match name:
        case "penalties" if p.penalty_last_n and penalty != (1, 0, 0):
            return lambda c: penalties(c, history.window(p.penalty_last_n), *penalty)
        case "dry" if p.dry_multiplier and p.dry_penalty_last_n:
            assert token_text is not None, "dry needs the texts of tokens"
            breakers = Breakers(p.dry_sequence_breakers, token_text)
            strength = p.dry_multiplier, p.dry_base, p.dry_allowed_length
            return lambda c: dry(c, history.window(p.dry_penalty_last_n), breakers, *strength)
        case "top_n_sigma" if p.top_n_sigma > 0:
            return lambda c: top_n_sigma(c, p.top_n_sigma)
        case "top_k" if p.top_k > 0:
            return lambda c: top_k(c, p.top_k)
        case "typ_p" if p.typ_p < 1:
            return lambda c: typ_p(c, p.typ_p, p.min_keep)
        case "top_p" if p.top_p < 1:
            return lambda c: top_p(c, p.top_p, p.min_keep)
        case "min_p" if p.min_p > 0:
            return lambda c: min_p(c, p.min_p, p.min_keep)
        case "xtc" if p.xtc_probability > 0 and p.xtc_threshold <= 0.5:
            return lambda c: xtc(c, p.xtc_probability, p.xtc_threshold, xtc_uniform(), p.min_keep)
        case "temperature" if p.temp != 1 or p.dynatemp_range > 0:
            return lambda c: dynamic_temp(c, p.temp, p.dynatemp_range, p.dynatemp_exponent)
    return None

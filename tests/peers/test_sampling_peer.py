"""Every sampler against llama.cpp's own, called through the C API that the xllamacpp extension exports.

tests/data/sampling_llamacpp.json holds cases, and what llama.cpp leaves of the candidates in each; tests/sampling
compares ours with the file. Here the file is compared with llama.cpp, and whole requests with its server.
"""

import ctypes
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chenxing.sampling import Sampler, SamplingParams, logprobs, top_ids

pytestmark = [pytest.mark.peer, pytest.mark.model]

RECORDED = Path(__file__).parents[1] / "data" / "sampling_llamacpp.json"
SEED = 1

_i32, _u32, _f32, _size, _ptr = ctypes.c_int32, ctypes.c_uint32, ctypes.c_float, ctypes.c_size_t, ctypes.c_void_p


class _ModelParams(ctypes.Structure):
    """Passed back as it came; larger than the real one, and only ever copied."""

    _fields_ = [("opaque", ctypes.c_uint64 * 32)]


class _Candidates(ctypes.Structure):
    _fields_ = [("data", _ptr), ("size", _size), ("selected", ctypes.c_int64), ("sorted", ctypes.c_bool)]


CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
BIAS = np.dtype([("token", np.int32), ("bias", np.float32)])


class LlamaSamplers:
    """llama.cpp's samplers, strung together as common_sampler_init() of b11434 does. A chain is a list of pointers."""

    def __init__(self, path: Path) -> None:
        import xllamacpp

        self._lib = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
        self._call("llama_backend_init", None)
        defaults = self._call("llama_model_default_params", _ModelParams)
        self._model = self._call(
            "llama_model_load_from_file", _ptr, (ctypes.c_char_p, bytes(path)), (_ModelParams, defaults)
        )
        assert self._model, f"llama.cpp does not load {path}"
        self._vocab = self._call("llama_model_get_vocab", _ptr, (_ptr, self._model))
        self._n_vocab = self._call("llama_vocab_n_tokens", _i32, (_ptr, self._vocab))

    def _call(self, name: str, result: Any, *arguments: tuple[Any, Any]) -> Any:
        function = getattr(self._lib, name)
        function.restype, function.argtypes = result, [kind for kind, _ in arguments]
        return function(*[value for _, value in arguments])

    def _new(self, name: str, *arguments: tuple[Any, Any]) -> int:
        return self._call("llama_sampler_init_" + name, _ptr, *arguments)

    def chain(self, p: SamplingParams, n_vocab: int, logit_bias: Sequence[tuple[int, float]]) -> list[int]:
        """n_vocab is what mirostat's formula takes, logit_bias replaces the one of p."""
        biases = np.array(list(logit_bias), dtype=BIAS)
        size, address = (_i32, biases.size), (_ptr, biases.ctypes.data)
        first = self._new("logit_bias", (_i32, self._n_vocab), size, address)
        tau_eta = (_f32, p.mirostat_tau), (_f32, p.mirostat_eta)
        match p.mirostat:
            case 0:
                return [first, *(self._sampler(name, p) for name in p.samplers), self._new("dist", (_u32, SEED))]
            case 1:
                last = self._new("mirostat", (_i32, n_vocab), (_u32, SEED), *tau_eta, (_i32, 100))
            case _:
                last = self._new("mirostat_v2", (_u32, SEED), *tau_eta)
        return [first, self._new("temp", (_f32, p.temp)), last]

    def _sampler(self, name: str, p: SamplingParams) -> int:
        keep = (_size, p.min_keep)
        match name:
            case "penalties":
                strength = (_f32, p.penalty_repeat), (_f32, p.penalty_freq), (_f32, p.penalty_present)
                return self._new("penalties", (_i32, self._n_vocab), (_i32, p.penalty_last_n), *strength)
            case "dry":
                texts = [text.encode() for text in p.dry_sequence_breakers]
                breakers = (_ptr, (ctypes.c_char_p * len(texts))(*texts)), (_size, len(texts))
                strength = (_f32, p.dry_multiplier), (_f32, p.dry_base)
                lengths = (_i32, p.dry_allowed_length), (_i32, p.dry_penalty_last_n)
                return self._new("dry", (_ptr, self._vocab), *strength, *lengths, *breakers)
            case "top_n_sigma":
                return self._new("top_n_sigma", (_f32, p.top_n_sigma))
            case "top_k":
                return self._new("top_k", (_i32, p.top_k))
            case "typ_p":
                return self._new("typical", (_f32, p.typ_p), keep)
            case "top_p":
                return self._new("top_p", (_f32, p.top_p), keep)
            case "min_p":
                return self._new("min_p", (_f32, p.min_p), keep)
            case "xtc":
                return self._new("xtc", (_f32, p.xtc_probability), (_f32, p.xtc_threshold), keep, (_u32, SEED))
            case "temperature":
                return self._new("temp_ext", (_f32, p.temp), (_f32, p.dynatemp_range), (_f32, p.dynatemp_exponent))
        raise AssertionError(name)

    def accept(self, chain: list[int], token: int) -> None:
        for sampler in chain:
            self._call("llama_sampler_accept", None, (_ptr, sampler), (_i32, token))

    def apply(self, chain: list[int], ids: list[int], logits: np.ndarray) -> tuple[list[tuple[int, float]], int]:
        """What the chain leaves of the candidates, (id, probability) each, and the id that it chooses."""
        data = np.zeros(len(ids), dtype=CANDIDATE)
        data["id"], data["logit"] = ids, logits
        candidates = _Candidates(data.ctypes.data, data.size, -1, False)
        for sampler in chain:
            self._call("llama_sampler_apply", None, (_ptr, sampler), (_ptr, ctypes.addressof(candidates)))
        begin = (candidates.data - data.ctypes.data) // CANDIDATE.itemsize  # xtc moves the pointer
        left = data[begin : begin + candidates.size]
        return [(int(id), float(p)) for id, _, p in left], int(left["id"][candidates.selected])

    def free(self, chain: list[int]) -> None:
        for sampler in chain:
            self._call("llama_sampler_free", None, (_ptr, sampler))

    def text(self, token: int) -> bytes:
        room = ctypes.create_string_buffer(256)
        where = (ctypes.c_char_p, room), (_i32, len(room))
        n = self._call("llama_token_to_piece", _i32, (_ptr, self._vocab), (_i32, token), *where, (_i32, 0), (_i32, 1))
        return room.raw[:n]

    def close(self) -> None:
        self._call("llama_model_free", None, (_ptr, self._model))


@pytest.fixture(scope="module")
def peer(smollm2_path: Path) -> Iterator[LlamaSamplers]:
    pytest.importorskip("xllamacpp")
    samplers = LlamaSamplers(smollm2_path)
    yield samplers
    samplers.close()


def replay(peer: LlamaSamplers, toy: dict[str, Any], case: dict[str, Any]) -> list[dict[str, Any]]:
    """For each row of the case: the candidates that llama.cpp leaves, with probabilities, and which it chose.

    The 96 toy tokens stand for real ones, whose texts dry needs; so ids are translated on the way in and out.
    """
    real, toy_ids = toy["smollm2_ids"], {id: i for i, id in enumerate(toy["smollm2_ids"])}
    params = SamplingParams(seed=SEED, **case["params"])
    chain = peer.chain(params, len(real), [(real[token], bias) for token, bias in params.logit_bias])
    for token in case["history"]:
        peer.accept(chain, real[token])
    steps = []
    for row in case["rows"]:
        left, chosen = peer.apply(chain, real, np.array(toy["rows"][row], dtype=np.float32))
        steps.append({"left": [[toy_ids[id], float(f"{p:.6g}")] for id, p in left if p > 0], "chosen": toy_ids[chosen]})
        peer.accept(chain, chosen)
    peer.free(chain)
    return steps


def test_the_recorded_results_are_llama_cpps(peer: LlamaSamplers) -> None:
    toy = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert [peer.text(id).decode() for id in toy["smollm2_ids"]] == toy["texts"]
    for case in toy["cases"]:
        found, expected = replay(peer, toy, case), case["steps"]
        assert [step["chosen"] for step in found] == [step["chosen"] for step in expected], case["params"]
        for ours, theirs in zip(found, expected, strict=True):
            shares = [{id: p for id, p in step["left"] if p > 1e-30} for step in (ours, theirs)]
            # six digits are written; another build's expf() may round differently
            assert shares[0] == pytest.approx(shares[1], rel=1e-4), case["params"]


PROMPT = 'The cat sat on the mat. The dog sat on the mat. "The cat sat on the'

# a request to llama.cpp's server, and the parameters that have other names here
REQUESTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"top_k": 0, "top_p": 0.8, "min_p": 0.0}, {}),
    ({"top_k": 100, "top_p": 1.0, "min_p": 0.001}, {}),
    ({"temperature": 0.0}, {"temp": 0.0}),
    ({"temperature": 2.0, "top_n_sigma": 1.0}, {"temp": 2.0}),
    ({"typical_p": 0.6, "min_keep": 2}, {"typ_p": 0.6}),
    ({"repeat_penalty": 1.4, "repeat_last_n": 9}, {"penalty_repeat": 1.4, "penalty_last_n": 9}),
    ({"presence_penalty": 0.7, "frequency_penalty": 0.4}, {"penalty_present": 0.7, "penalty_freq": 0.4}),
    ({"dry_multiplier": 2.0, "dry_allowed_length": 1}, {}),
    ({"dry_multiplier": 2.0, "dry_allowed_length": 1, "dry_sequence_breakers": ["zzz"]}, {}),
    ({"dynatemp_range": 0.6, "dynatemp_exponent": 1.5}, {}),
    ({"xtc_probability": 1.0, "xtc_threshold": 0.05}, {}),
    ({"samplers": ["min_p", "temperature"], "min_p": 0.01}, {}),
    ({"logit_bias": [[2644, 8.0], [260, False]]}, {"logit_bias": [(2644, 8.0), (260, -np.inf)]}),
]


def params_of(request: dict[str, Any], named: dict[str, Any]) -> SamplingParams:
    same = {name: value for name, value in request.items() if name in SamplingParams.__dataclass_fields__}
    return SamplingParams(**{"seed": SEED, **same, **named})


def test_requests_get_the_servers_probabilities(peer: LlamaSamplers, smollm2_path: Path) -> None:
    """llama.cpp's logits of a prompt through our chain, against what its server reports for the first new token."""
    import xllamacpp
    from oracle import LlamaCpp

    with LlamaCpp(smollm2_path, n_ctx=256) as model:
        prompt = model.tokenize(PROMPT)
        logits = model.logits(prompt)[-1]
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.cpuparams.n_threads = str(smollm2_path), 256, 2
    server = xllamacpp.Server(params)

    def first_token(**request: Any) -> dict[str, Any]:
        ask = {"prompt": PROMPT, "n_predict": 1, "seed": SEED, "cache_prompt": False, **request}
        return server.handle_completions(ask)["choices"][0]["logprobs"]["content"][0]

    for request, named in REQUESTS:
        top = first_token(n_probs=1000, post_sampling_probs=True, **request)["top_probs"]
        sampler = Sampler(params_of(request, named), logits.size, token_text=peer.text, prompt=prompt)
        ids, shares = sampler.probabilities(logits)
        order = np.argsort(-shares, kind="stable")[:1000]
        found = dict(zip(ids[order].tolist(), shares[order].tolist(), strict=True))
        # the server sums f32 numbers one by one, over the whole vocabulary where nothing has been dropped
        assert found == pytest.approx({entry["id"]: entry["prob"] for entry in top}, rel=1e-3), request

    top = first_token(n_probs=20)["top_logprobs"]
    ids = top_ids(logits, 20)
    assert ids.tolist() == [entry["id"] for entry in top]
    np.testing.assert_allclose(
        logprobs(logits, ids), [entry["logprob"] for entry in top], rtol=0, atol=1e-3
    )  # likewise

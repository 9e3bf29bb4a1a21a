"""llama.cpp's logits at every position, through the C API that the xllamacpp extension exports.

The extension links llama.cpp statically and leaves the `llama_*` symbols visible, so one `llama_decode` gives all rows
at once; over the server's `n_probs` the same would be one request a position.

Source: llama.h of llama.cpp b11434 (order of llama_context_params' fields); the layout is checked against the library's
own defaults before use.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

GGML_TYPE = {"f32": 0, "f16": 1}
FLASH_ATTN = {"auto": -1, "off": 0, "on": 1}

_i32, _u32, _f32, _ptr = ctypes.c_int32, ctypes.c_uint32, ctypes.c_float, ctypes.c_void_p


class _ModelParams(ctypes.Structure):
    """Passed back as it came. Larger than any version's struct, which is harmless: it is copied whole, read in part."""

    _fields_ = [("opaque", ctypes.c_uint64 * 32)]


class _ContextParams(ctypes.Structure):
    _fields_ = [
        *[(name, _u32) for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq")],
        *[(name, _u32) for name in ("n_outputs_max", "n_outputs_max_per_seq")],
        *[(name, _i32) for name in ("n_threads", "n_threads_batch", "ctx_type", "rope_scaling_type", "pooling_type")],
        *[(name, _i32) for name in ("attention_type", "flash_attn_type")],
        *[(name, _f32) for name in ("rope_freq_base", "rope_freq_scale", "yarn_ext_factor", "yarn_attn_factor")],
        *[(name, _f32) for name in ("yarn_beta_fast", "yarn_beta_slow")],
        ("yarn_orig_ctx", _u32),
        ("defrag_thold", _f32),
        ("cb_eval", _ptr),
        ("cb_eval_user_data", _ptr),
        ("type_k", _i32),
        ("type_v", _i32),
        ("opaque", ctypes.c_uint64 * 24),
    ]


class _Batch(ctypes.Structure):
    _fields_ = [
        ("n_tokens", _i32),
        *[(name, _ptr) for name in ("token", "embd", "pos", "n_seq_id", "seq_id", "logits")],
    ]


_LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, _ptr)


@_LogCallback
def _silent(level: int, text: bytes, user_data: int) -> None:
    """llama.cpp writes pages to stderr otherwise. A module global: the library keeps the pointer."""


def _library() -> ctypes.CDLL:
    """The extension as a C library. Skips the test that asks where a platform's wheel hides the C API."""
    import xllamacpp

    lib = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
    if not hasattr(lib, "llama_decode"):
        pytest.skip("this xllamacpp does not export llama.cpp's C API")
    for name, result, arguments in (
        ("llama_model_default_params", _ModelParams, []),
        ("llama_context_default_params", _ContextParams, []),
        ("llama_model_load_from_file", _ptr, [ctypes.c_char_p, _ModelParams]),
        ("llama_init_from_model", _ptr, [_ptr, _ContextParams]),
        ("llama_model_get_vocab", _ptr, [_ptr]),
        ("llama_vocab_n_tokens", _i32, [_ptr]),
        ("llama_tokenize", _i32, [_ptr, ctypes.c_char_p, _i32, _ptr, _i32, ctypes.c_bool, ctypes.c_bool]),
        ("llama_get_memory", _ptr, [_ptr]),
        ("llama_memory_clear", None, [_ptr, ctypes.c_bool]),
        ("llama_decode", _i32, [_ptr, _Batch]),
        ("llama_get_logits", ctypes.POINTER(_f32), [_ptr]),
        ("llama_free", None, [_ptr]),
        ("llama_model_free", None, [_ptr]),
        ("llama_backend_init", None, []),
        ("llama_log_set", None, [_LogCallback, _ptr]),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    lib.llama_log_set(_silent, None)
    lib.llama_backend_init()
    return lib


class LlamaCpp:
    """One model in llama.cpp and one context of `n_ctx` tokens.

    Defaults are those that llama.cpp's users run with: KV in f16, flash attention where it can. `kv_type="f32"` with
    `flash_attn="off"` takes both roundings out, for tight comparisons. One thread: its threads spin, and tests run side
    by side.
    """

    def __init__(
        self, path: Path, *, n_ctx: int, kv_type: str = "f16", flash_attn: str = "auto", n_threads: int = 1
    ) -> None:
        self._lib = _library()
        params = self._lib.llama_context_default_params()
        layout = (params.n_batch, params.n_ubatch, params.flash_attn_type, params.yarn_ext_factor, params.type_k)
        assert layout == (2048, 512, -1, -1.0, GGML_TYPE["f16"]), f"llama_context_params has moved: {layout}"
        params.n_ctx = params.n_batch = n_ctx
        params.n_threads = params.n_threads_batch = n_threads
        params.type_k = params.type_v = GGML_TYPE[kv_type]
        params.flash_attn_type = FLASH_ATTN[flash_attn]
        self._context = None
        self._model = self._lib.llama_model_load_from_file(str(path).encode(), self._lib.llama_model_default_params())
        assert self._model, f"llama.cpp does not load {path}"
        self._context = self._lib.llama_init_from_model(self._model, params)
        assert self._context, f"llama.cpp makes no context of {n_ctx} tokens for {path}"
        self._vocab = self._lib.llama_model_get_vocab(self._model)
        self.n_vocab: int = self._lib.llama_vocab_n_tokens(self._vocab)
        self.n_ctx = n_ctx

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """f32[len(ids), n_vocab]: row i is the next token's logits after ids[: i + 1], from an empty context."""
        n = len(ids)
        assert 0 < n <= self.n_ctx, f"{n} tokens in a context of {self.n_ctx}"
        tokens = np.asarray(ids, dtype=np.int32)
        wanted = np.ones(n, dtype=np.int8)
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)
        batch = _Batch(n_tokens=n, token=tokens.ctypes.data, logits=wanted.ctypes.data)
        status = self._lib.llama_decode(self._context, batch)
        assert status == 0, f"llama_decode: {status}"
        rows = np.ctypeslib.as_array(self._lib.llama_get_logits(self._context), shape=(n, self.n_vocab))
        return rows.copy()  # the buffer is the context's

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        data = text.encode()
        room = len(data) + 8  # a token is at least one byte; specials come on top
        ids = np.empty(room, dtype=np.int32)
        n = self._lib.llama_tokenize(self._vocab, data, len(data), ids.ctypes.data, room, add_special, parse_special)
        assert n >= 0, f"llama_tokenize wants room for {-n} tokens, has {room}"
        return ids[:n].tolist()

    def close(self) -> None:
        if self._context:
            self._lib.llama_free(self._context)
        if self._model:
            self._lib.llama_model_free(self._model)
        self._context = self._model = None

    def __enter__(self) -> LlamaCpp:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

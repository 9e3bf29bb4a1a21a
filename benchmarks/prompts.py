"""Prompts of random tokens: a prefix that requests share, and a question of their own behind it."""

import numpy as np

N_QUESTION = 16


def prompt(n_prefix: int, n_vocab: int, question: int) -> list[int]:
    """n_prefix tokens, always the same ones, and N_QUESTION that depend on `question`. Special tokens are left out."""
    prefix = np.random.default_rng(0).integers(n_vocab // 4, n_vocab // 2, n_prefix)
    rest = np.random.default_rng(question + 1).integers(n_vocab // 4, n_vocab // 2, N_QUESTION)
    return [*prefix.tolist(), *rest.tolist()]

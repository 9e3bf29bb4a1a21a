"""How surprising is each word of a sentence? The negative logarithm of its probability, token by token."""

import numpy as np

from chenxing import LLM
from chenxing.sampling import logprobs

with LLM.load("smollm2") as llm:
    ids = llm.tokenize("The cat sat on the mat and recited the periodic table.")
    logits = llm.logits(ids[:-1])
    for row, token in zip(logits, ids[1:], strict=True):
        bits = -float(logprobs(row, np.array([token]))[0]) / np.log(2)
        print(f"{bits:6.1f} bits  {llm.detokenize([token])!r}")

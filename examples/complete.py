"""Complete a text, without a chat template."""

from chenxing import LLM
from chenxing.sampling import SamplingParams

with LLM.load("smollm2") as llm:
    answer = llm.generate("The capital of France is", raw=True, params=SamplingParams(temp=0.0), max_tokens=12)
    print(answer.text)

"""Tokens per second of answers with and without drafts from n-grams, in turn, in one process.

python -m benchmarks.our_speculation MODEL THREADS TOKENS ROUNDS

Prints JSON: for each kind of text the rates of both, and how many tokens were drafted and accepted. Both must give the
same answers; the rates are of tokens after the first.
"""

import json
import sys
from dataclasses import replace
from typing import Any

from chenxing import LLM
from chenxing.engine import Generation, SpecOptions
from chenxing.sampling import SamplingParams

N_CTX = 2048
_CODE = '''\
class Shelf:
    """Books in the order of their titles."""

    def __init__(self, name, n_places):
        self.name = name
        self.n_places = n_places
        self.books = []

    def add(self, book):
        """Put a book in its place. Raises ValueError if the shelf is full."""
        if len(self.books) == self.n_places:
            raise ValueError(f"{self.name} is full")
        at = 0
        while at < len(self.books) and self.books[at].title < book.title:
            at += 1
        self.books.insert(at, book)

    def find(self, title):
        """The book of this title, or None."""
        low, high = 0, len(self.books)
        while low < high:
            middle = (low + high) // 2
            if self.books[middle].title < title:
                low = middle + 1
            else:
                high = middle
        if low < len(self.books) and self.books[low].title == title:
            return self.books[low]
        return None

    def remove(self, title):
        """Take a book out. Raises KeyError if it is not there."""
        book = self.find(title)
        if book is None:
            raise KeyError(title)
        self.books.remove(book)
        return book
'''
_EDIT = f"Here is a file:\n```python\n{_CODE}```\nWrite the whole file again, with the class called Rack.\n"
_DONE = f"```python\n{_CODE}"  # a base model completes: it is shown the beginning of the edit
_PROSE = "The last winter in the lighthouse was the hardest. Every morning the keeper went down to the shore and"
_STORY = "Write a long story about a lighthouse keeper who finds a letter in a bottle."


def prompts(llm: LLM) -> dict[str, tuple[str, bool, SamplingParams]]:
    """By the kind of text: the prompt, whether it is raw, and how tokens are chosen."""
    edit, write = SamplingParams(temp=0.0, ignore_eos=True), SamplingParams(temp=0.8, ignore_eos=True)
    if llm.template is None:
        return {
            "code edit": (f"{_DONE}```\n\nThe same again:\n\n```python\n", True, edit),
            "prose": (_PROSE, True, write),
        }
    return {"code edit": (_EDIT, False, edit), "prose": (_STORY, False, write)}


def main(model: str, n_threads: int, n_tokens: int, n_rounds: int) -> dict[str, Any]:
    options = {"n_ctx": N_CTX, "n_threads": n_threads, "disk_cache": False}
    plain = LLM.load(model, speculation=SpecOptions("none"), **options)  # type: ignore[arg-type]
    drafted = LLM.load(model, speculation=SpecOptions("ngram-simple"), **options)  # type: ignore[arg-type]
    found: dict[str, Any] = {}
    with plain, drafted:
        for kind, (prompt, raw, params) in prompts(plain).items():
            answers: list[tuple[Generation, Generation]] = []
            for i in range(n_rounds):
                chosen = replace(params, seed=i)
                order = (plain, drafted) if i % 2 == 0 else (drafted, plain)
                pair = {llm: llm.generate(prompt, raw=raw, params=chosen, max_tokens=n_tokens) for llm in order}
                a, b = pair[plain], pair[drafted]
                assert a.token_ids == b.token_ids, "drafts changed an answer"
                answers.append((a, b))
            drafts = [b.stats.drafts for _, b in answers]
            found[kind] = {
                "plain": [a.stats.generated_per_second for a, _ in answers],
                "drafted": [b.stats.generated_per_second for _, b in answers],
                "n_drafted": sum(d.n_tokens for d in drafts),
                "n_accepted": sum(d.n_accepted for d in drafts),
                "n_skipped": sum(d.n_skipped for d in drafts),
            }
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], *map(int, sys.argv[2:5]))))

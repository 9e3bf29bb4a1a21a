import numpy as np
import pytest

from chenxing.errors import GrammarError
from chenxing.sampling import Constraint, Sampler, SamplingParams
from chenxing.sampling.grammar import Grammars
from chenxing.tokenizer import Tokenizer


def permitted(constraint: Constraint, tokenizer: Tokenizer) -> set[bytes | int]:
    """The texts of the permitted tokens; ids of those that end."""
    logits = np.zeros(tokenizer.n_vocab + 37, dtype=np.float32)
    constraint.apply(logits)
    ids = np.flatnonzero(logits > -np.inf).tolist()
    return {token if token in tokenizer.eog_ids else tokenizer.token_bytes(token) for token in ids}


def spelt(tokenizer: Tokenizer, text: str) -> list[int]:
    """The tokens of single characters."""
    ids = {tokenizer.token_bytes(i): i for i in reversed(range(tokenizer.n_vocab)) if not tokenizer.is_special(i)}
    return [ids[c.encode()] for c in text]


def test_the_end_is_permitted_where_the_grammar_ends(grammars: Grammars, tokenizer: Tokenizer) -> None:
    constraint = grammars.regex("ab?")
    assert not permitted(constraint, tokenizer) & tokenizer.eog_ids and not constraint.may_end
    constraint.accept(spelt(tokenizer, "a")[0])
    assert permitted(constraint, tokenizer) == {b"b", *tokenizer.eog_ids}
    assert constraint.may_end and not constraint.is_finished
    constraint.accept(spelt(tokenizer, "b")[0])
    assert permitted(constraint, tokenizer) == tokenizer.eog_ids and constraint.is_finished
    constraint.accept(min(tokenizer.eog_ids))
    assert permitted(constraint, tokenizer) == tokenizer.eog_ids and constraint.is_finished


def test_special_tokens_are_no_text(grammars: Grammars, tokenizer: Tokenizer) -> None:
    """Not even where the grammar takes any text at all, their spelling included."""
    logits = np.zeros(tokenizer.n_vocab + 37, dtype=np.float32)
    grammars.gbnf("root ::= .*").apply(logits)
    special = {token for text in tokenizer.special_texts if (token := tokenizer.find(text)) is not None}
    assert special and (logits[sorted(special - tokenizer.eog_ids)] == -np.inf).all()
    assert (logits[tokenizer.n_vocab :] == -np.inf).all()
    assert (logits[sorted(tokenizer.eog_ids)] == 0).all()


def test_a_forbidden_token_is_refused(grammars: Grammars, tokenizer: Tokenizer) -> None:
    with pytest.raises(GrammarError, match="grammar: "):
        grammars.regex("a").accept(spelt(tokenizer, "b")[0])
    with pytest.raises(GrammarError, match="ends the answer where the grammar does not"):
        grammars.regex("a").accept(min(tokenizer.eog_ids))


def test_masks_made_early_are_the_same(grammars: Grammars, tokenizer: Tokenizer) -> None:
    early, late = (grammars.json_schema({"enum": ["aba", "abb"]}) for _ in range(2))
    for token in spelt(tokenizer, '"ab'):
        early.accept(token)
        early.prepare()
        late.accept(token)
        assert permitted(early, tokenizer) == permitted(late, tokenizer)


def test_clones_go_their_own_ways(grammars: Grammars, tokenizer: Tokenizer) -> None:
    constraint = grammars.regex("a(b|c)")
    a, b, c = spelt(tokenizer, "abc")
    constraint.accept(a)
    constraint.prepare()
    twin = constraint.clone()
    constraint.accept(b)
    assert constraint.is_finished and not twin.is_finished
    twin.accept(c)
    assert twin.is_finished


def test_how_much_of_a_draft_is_permitted(grammars: Grammars, tokenizer: Tokenizer) -> None:
    constraint = grammars.regex("abc+d")
    for text, n in (("abccd", 5), ("abd", 2), ("b", 0), ("abcd!", 4), ("", 0)):
        assert constraint.n_permitted(spelt(tokenizer, text)) == n
    for token in spelt(tokenizer, "ab"):
        constraint.accept(token)
    constraint.prepare()
    assert constraint.n_permitted(spelt(tokenizer, "ccd")) == 3
    assert permitted(constraint, tokenizer) & {b"c", b"d"} == {b"c"}  # it has not moved
    for token in spelt(tokenizer, "cd"):
        constraint.accept(token)
    assert constraint.n_permitted(spelt(tokenizer, "d")) == 0
    constraint.accept(min(tokenizer.eog_ids))
    assert constraint.n_permitted(spelt(tokenizer, "d")) == 0


def test_a_draft_ends_where_the_grammar_begins(grammars: Grammars, tokenizer: Tokenizer) -> None:
    constraint = grammars.any_of(regex="ab", after="end.")
    assert constraint.n_permitted(spelt(tokenizer, "the end.ab")) == 7
    assert constraint.n_permitted(spelt(tokenizer, "the en")) == 6
    for token in spelt(tokenizer, "the en"):
        constraint.accept(token)
    assert constraint.n_permitted(spelt(tokenizer, "d.ab")) == 1
    for token in spelt(tokenizer, "d."):
        constraint.accept(token)
    assert constraint.n_permitted(spelt(tokenizer, "abc")) == 2


def test_the_grammar_begins_after_a_text(grammars: Grammars, tokenizer: Tokenizer) -> None:
    constraint = grammars.regex("ab", after="::")
    assert len(permitted(constraint, tokenizer)) > 100 and not permitted(constraint, tokenizer) & tokenizer.eog_ids
    for token in spelt(tokenizer, "c:a:"):
        constraint.accept(token)
        assert not constraint.may_end
    twin = constraint.clone()
    constraint.accept(spelt(tokenizer, ":")[0])
    assert permitted(constraint, tokenizer) <= {b"a", b"ab"}
    assert len(permitted(twin, tokenizer)) > 100


def test_a_sampler_moves_its_constraint(grammars: Grammars, tokenizer: Tokenizer) -> None:
    """Bans on the end give way where the grammar permits nothing else."""
    params = SamplingParams(seed=1, ignore_eos=True, min_tokens=9)
    n_vocab = tokenizer.n_vocab + 37
    sampler = Sampler(params, n_vocab, eog_ids=tokenizer.eog_ids, constraint=grammars.regex("[ab]{3}c*"))
    logits = np.random.default_rng(0).normal(0, 1, n_vocab).astype(np.float32)
    before = logits.copy()
    tokens: list[int] = []
    for _ in range(6):
        tokens.append(sampler.sample(logits))
        sampler.accept(tokens[-1])
    assert (logits == before).all()
    assert tokenizer.join(tokens)[:3].strip(b"ab") == b"" and tokenizer.join(tokens)[3:].strip(b"c") == b""
    once = Sampler(params, n_vocab, eog_ids=tokenizer.eog_ids, constraint=grammars.regex("a"))
    once.accept(spelt(tokenizer, "a")[0])
    assert once.sample(logits) in tokenizer.eog_ids

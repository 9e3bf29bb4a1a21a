"""Words of texts without a pre-tokenizer are cut only where no token reaches across."""

from chenxing.tokenizer.spacewords import find_joints, word_finder


def _split(tokens: list[str], text: str) -> list[str]:
    return list(word_finder(find_joints([token.encode() for token in tokens]))(text))


def test_no_token_reaches_across() -> None:
    assert _split(["▁the", "star"], "▁the▁star▁▁s") == ["▁the", "▁star", "▁", "▁s"]


def test_runs_of_spaces() -> None:
    assert _split(["▁▁", "▁the"], "a▁▁▁the▁b") == ["a", "▁▁▁the", "▁b"]


def test_tokens_across_words() -> None:
    assert _split([".▁", ">▁a"], "a.▁b>▁c▁d") == ["a.▁b>▁c", "▁d"]


def test_newlines_and_brackets() -> None:
    assert _split(["]▁", "^▁", "\n▁"], "a]▁^▁\n▁b▁\n") == ["a]▁^▁\n▁b", "▁\n"]

import pytest

from chenxing.file_names import is_ordinary


@pytest.mark.parametrize("name", ["model-Q4_K_M.gguf", ".hidden", "a b", "con-1.gguf", "晨星.json", "COM", "comma.txt"])
def test_ordinary(name: str) -> None:
    assert is_ordinary(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "a\\b",
        "C:a",
        "a:b",
        "a?",
        "a.",
        "a ",
        "a\n",
        "con",
        "NUL.txt",
        "Aux .gguf",
        "lpt1.a.b",
        "COM²",
    ],
)
def test_not_on_every_system(name: str) -> None:
    assert not is_ordinary(name)

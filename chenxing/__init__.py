"""chenxing (晨星): a local runtime for GGUF language models."""

TYPE_CHECKING = False  # typing's own costs 20 ms, and type checkers know the name

__version__ = "0.1.0"
__all__ = ["LLM", "__version__"]

if TYPE_CHECKING:
    from chenxing.llm import LLM


def __getattr__(name: str) -> object:
    # `import chenxing` costs nothing; the runtime is imported when it is first named
    if name == "LLM":
        from chenxing.llm import LLM

        return LLM
    raise AttributeError(f"module 'chenxing' has no attribute {name!r}")

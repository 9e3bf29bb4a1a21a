"""What is told of a model although it may be asleep."""

from dataclasses import dataclass

from chenxing.llm import LLM


@dataclass(frozen=True)
class Facts:
    """bos, eos  texts of these tokens, "" if there is none
    size      bytes of packed weights
    """

    name: str
    path: str
    template: str
    bos: str
    eos: str
    n_vocab: int
    n_ctx_train: int
    n_embd: int
    size: int


def facts_of(llm: LLM) -> Facts:
    """Of a loaded model."""
    assert llm.template
    template = llm.template
    return Facts(
        name=llm.path.name,
        path=str(llm.path),
        template=template.source,
        bos=template.bos,
        eos=template.eos,
        n_vocab=llm.n_vocab,
        n_ctx_train=llm.n_ctx_train,
        n_embd=llm.engine.hp.n_embd,
        size=llm.weights_bytes,
    )

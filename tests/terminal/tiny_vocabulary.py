"""A vocabulary-only GGUF file of 290 tokens, with a chat template: control tokens, all bytes, some letters."""

from pathlib import Path

from gguf import GGUFWriter, TokenType

BOS, EOS, IM_START, IM_END, FIRST_BYTE = 1, 2, 3, 4, 5
LETTERS = ["▁", *"abcdefghijklmnopqrstuvwxyz", "he", "▁he"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking %}<think>\n{% endif %}{% endif %}"
)


def token_id(text: str) -> int:
    return FIRST_BYTE + 256 + LETTERS.index(text)


def write_vocabulary(path: Path, *, template: str | None = TEMPLATE, spaces: bool = True) -> Path:
    """An SPM vocabulary; `spaces` says that a space is put before each text."""
    control = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
    tokens = ["<unk>", *control, *(f"<0x{byte:02X}>" for byte in range(256)), *LETTERS]
    types = [TokenType.UNKNOWN] + [TokenType.CONTROL] * 4 + [TokenType.BYTE] * 256 + [TokenType.NORMAL] * len(LETTERS)
    writer = GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * (5 + 256) + [-1.0 - number for number in range(len(LETTERS))])
    writer.add_token_types(types)
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(spaces)
    if template:
        writer.add_chat_template(template)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path

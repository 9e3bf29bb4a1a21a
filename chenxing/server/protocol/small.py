"""llama-server's small endpoints: /tokenize, /detokenize, /slots."""

import msgspec


class TokenizeRequest(msgspec.Struct, kw_only=True):
    content: str = ""
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    tokens: list[int] = []


class SlotFile(msgspec.Struct, kw_only=True):
    filename: str

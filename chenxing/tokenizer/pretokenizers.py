"""The pre-tokenizers that llama.cpp knows by name: how a BPE vocabulary's text is cut into words before merging.

Each is a sequence of rules; a rule cuts the pieces that the rules before it left. A string is an expression, written
with \\p{L} letters, \\p{N} numbers, \\p{M} marks, \\p{P} punctuation, \\p{S} symbols, and beyond llama.cpp's
\\p{U} letters but a-z, \\p{W} letters but A-Z, \\p{H} Han, \\p{J} joiners, \\p{X} letters but Han. Categories stand
inside brackets only. The four names in `Cut` are rules that no expression finds in linear time.

Where llama.cpp has written a splitter by hand (GPT-2, Llama 3, Qwen2, Qwen3.5, Kimi-K2, K2-Horizon, AFMoE), the
expression here is one with the same cuts. Its \\p{Lu}, \\p{Ll} and so on all mean \\p{L}, and are written so.

Source  llama.cpp b11434, src/llama-vocab.cpp: llm_tokenizer_bpe, llama_vocab::impl::load; src/unicode.cpp.
        k2-horizon: b11549. The expressions are those of the models' own tokenizer.json files
"""

from dataclasses import dataclass, replace
from enum import Enum, auto


class Cut(Enum):
    """Rules that are functions."""

    DIGITS_FROM_RIGHT = auto()  # behind each group of three numbers, counted from the right; text sticks to the first
    ASCII_DIGITS_FROM_RIGHT = auto()  # before each group of three ASCII digits, counted from the right
    TRAILING_SPACE = auto()  # before white space that ends the piece
    NEWLINES = auto()  # between runs of newlines and what is not newline


@dataclass(frozen=True)
class PreTokenizer:
    """Rules, and what llama.cpp sets for vocabularies of this name unless the file says otherwise.

    byte_level         words are spelt in GPT-2's 256 characters for bytes; else in UTF-8, with <0xXX> for the rest
    ignore_merges      a word that is a token is that token, whatever the merges say
    clean_spaces       detokenising removes spaces before punctuation
    escape_spaces      a space is U+2581, as in SPM
    metaspace          words start at U+2581, and the first word of a text has one
    newline_tokens     a run of newlines that is a token is that token
    has_default_bos    False if there is no BOS unless the file names one
    force_bos          a file that says add_bos = false is not believed
    """

    rules: tuple[str | Cut, ...]
    byte_level: bool = True
    ignore_merges: bool = False
    clean_spaces: bool = True
    escape_spaces: bool = False
    metaspace: bool = False
    newline_tokens: bool = False
    add_bos: bool = False
    add_sep: bool = False
    has_default_bos: bool = True
    force_bos: bool = False


_ENGLISH = r"'s|'t|'re|'ve|'m|'ll|'d"
_ENGLISH_ANY_CASE = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
_SPACES = r"\s+(?!\S)|\s+"
_LINES = r"\s*[\r\n]+|" + _SPACES
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LINES
_WORD = r"[^\r\n\p{L}\p{N}]?[\p{L}]+"

_GPT2 = _ENGLISH + r"| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_LLAMA3 = rf"{_ENGLISH_ANY_CASE}|{_WORD}|[\p{{N}}]{{1,3}}|{_SIGNS}"
_QWEN2 = rf"{_ENGLISH_ANY_CASE}|{_WORD}|[\p{{N}}]|{_SIGNS}"
_QWEN35 = (
    rf"{_ENGLISH_ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|[\p{{N}}]"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_LINES}"
)


def _cased(upper: str, lower: str, suffix: str, number: str) -> str:
    """GPT-4o's shape: a word of capitals then small letters, at least one of either."""
    start, end = r"[^\r\n\p{L}\p{N}]?", rf"(?:{suffix})?" if suffix else ""
    words = f"{start}[{upper}]*[{lower}]+{end}|{start}[{upper}]+[{lower}]*{end}"
    return rf"{words}|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_LINES}"


_ANY_CASED = r"\p{L}\p{M}"
_THREE_NUMBERS, _ONE_NUMBER = r"[\p{N}]{1,3}", r"[\p{N}]"
_CJK = r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_ASCII_SIGN_WORD = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
_DEEPSEEK_WORDS = rf"{_ASCII_SIGN_WORD}|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+"
_DEEPSEEK3 = (_THREE_NUMBERS, _CJK, rf"{_DEEPSEEK_WORDS}[\r\n]*|{_LINES}")
_DEEPSEEK_LLM_LETTERS = (
    r"\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    r"\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    r"\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    r"\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    r"\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    r"\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    r"\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    r"\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    r"\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    r"\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+"
)

_DEEPSEEK_SIGNS = r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
_DEEPSEEK_CJK = r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_DEEPSEEK_LLM = (
    r"[\r\n]", _DEEPSEEK_LLM_LETTERS, _DEEPSEEK_SIGNS, Cut.TRAILING_SPACE, _DEEPSEEK_CJK, r"[\p{N}]+"
)  # fmt: skip
_YOUTU_CJK = (
    r"[\uac00-\ud7a3\u3131-\u318e]+"
    r"|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|"
) + _CJK
# U+8C48 is what the published expression has where U+F900, its compatibility form, must have been meant
_AFMOE_SCRIPTS = (
    r"[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
    r"\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)
_BLOOM = r" ?[^(\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_FALCON_SIGNS = r"[\p{P}\$\+<=>\^~\|`]+"
_KIMI = rf"[\p{{H}}]+|[^\r\n\p{{L}}\p{{N}}]?[\p{{X}}]+(?:{_ENGLISH_ANY_CASE})?|[\p{{N}}]{{1,3}}|{_SIGNS}"
_JAIS2_SPACES = "".join(rf"|\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}"
_JAIS2 = rf"{_ENGLISH_ANY_CASE}|{_WORD}|[\p{{N}}]{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+{_JAIS2_SPACES}"
_BAILING = (
    rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|{_WORD}|[\p{{N}}]| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]|{_SPACES}"
)
_EXAONE_MOE = (
    rf"{_ENGLISH_ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?(?:[\p{{L}}][\p{{M}}]*(?: [\p{{L}}][\p{{M}}]*)*)+|[\p{{N}}]"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?|\s*[\r\n]|{_SPACES}"
)
_K2_HORIZON = rf"{_ENGLISH_ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}\p{{J}}]+|[\p{{N}}]{{1,3}}|{_SIGNS}"
_CHAMELEON = (
    r"<sentinel:[0-9]+>", r"(?:IMGIMG)[A-I]{1,4}Z", r"[\t\n]|    |  ", _ONE_NUMBER, r"[\p{P}!-/:-@\[-`{-~]", _GPT2
)  # fmt: skip

_ONE_BY_ONE = PreTokenizer((_ONE_NUMBER, _GPT2))
_PLAIN = PreTokenizer((_GPT2,))
_SPM_LIKE = PreTokenizer((Cut.NEWLINES,), byte_level=False, escape_spaces=True)


def _exact(*rules: str | Cut, ignore_merges: bool = False) -> PreTokenizer:
    """Most names of today: text comes back as it was."""
    return PreTokenizer(rules, clean_spaces=False, ignore_merges=ignore_merges)


_FAMILIES: list[tuple[str, PreTokenizer]] = [
    ("llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True)),
    ("dbrx smaug-bpe", PreTokenizer((_LLAMA3,))),
    ("chatglm-bpe", PreTokenizer((_LLAMA3,), has_default_bos=False)),
    ("glm4 glm5", PreTokenizer((_LLAMA3,), has_default_bos=False, ignore_merges=True)),
    ("jais-2", PreTokenizer((_JAIS2,))),
    ("minicpm5",
     PreTokenizer((_THREE_NUMBERS, rf"{_ENGLISH_ANY_CASE}|{_WORD}|[\p{{N}}]+|{_SIGNS}"), ignore_merges=True)),
    ("k2-horizon", _exact(_K2_HORIZON)),
    ("deepseek-llm", _exact(*_DEEPSEEK_LLM)),
    ("deepseek-coder", _exact(r"[\r\n]", r"\s?[\p{L}]+", r"\s?[\p{P}]+", _DEEPSEEK_CJK, _ONE_NUMBER)),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", _exact(*_DEEPSEEK3)),
    ("spark2_5", _exact(_THREE_NUMBERS, _CJK, rf"{_DEEPSEEK_WORDS}|[\r\n]|{_SPACES}", _ONE_NUMBER)),
    ("youtu", _exact(_YOUTU_CJK, _cased(_ANY_CASED, _ANY_CASED, _ENGLISH_ANY_CASE, _ONE_NUMBER), ignore_merges=True)),
    ("falcon", PreTokenizer((_FALCON_SIGNS, _GPT2, "[0-9][0-9][0-9]"))),
    ("default", PreTokenizer((_FALCON_SIGNS.replace("`", ""), _GPT2, r"[\p{N}]+", "[0-9][0-9][0-9]"))),
    ("starcoder refact codeshell exaone minerva-7b mellum2", _ONE_BY_ONE),
    ("command-r smollm", replace(_ONE_BY_ONE, clean_spaces=False)),
    ("gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum modern-bert mpt olmo jais exaone4",
     _PLAIN),
    ("jina-v1-en jina-v2-code roberta-bpe", replace(_PLAIN, add_sep=True)),
    ("trillion granite-docling", replace(_PLAIN, clean_spaces=False)),
    ("stablelm2", PreTokenizer((_QWEN2,))),
    ("qwen2 deepseek-r1-qwen kormo f2llmv2 hunyuan solar-open grok-2", _exact(_QWEN2)),
    ("megrez", PreTokenizer((_QWEN2,))),
    ("laguna", _exact(Cut.NEWLINES, _QWEN2)),
    ("qwen35", _exact(_QWEN35)),
    ("bloom gpt3-finnish", PreTokenizer((_BLOOM,))),
    ("poro-chat", _exact(_BLOOM)),
    ("viking", _exact(_BLOOM, _ONE_NUMBER)),
    ("tekken",
     replace(_exact(_cased(r"\p{U}", r"\p{W}", "", _ONE_NUMBER), ignore_merges=True), add_bos=True)),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", _exact(_cased(r"\p{U}", r"\p{W}", _ENGLISH_ANY_CASE, _THREE_NUMBERS))),
    ("granite-embed-multi-97m",
     _exact(_cased(r"\p{U}\p{M}", r"\p{W}\p{M}", _ENGLISH_ANY_CASE, _THREE_NUMBERS), ignore_merges=True)),
    ("tiny_aya cohere2moe",
     _exact(Cut.DIGITS_FROM_RIGHT, _cased(_ANY_CASED, _ANY_CASED, _ENGLISH_ANY_CASE, _THREE_NUMBERS))),
    ("afmoe", _exact(Cut.DIGITS_FROM_RIGHT, _AFMOE_SCRIPTS, rf"{_DEEPSEEK_WORDS}[\r\n]*|{_LINES}")),
    ("kimi-k2", _exact(_KIMI)),
    ("superbpe", _exact(r"[\p{N}]+", Cut.ASCII_DIGITS_FROM_RIGHT)),
    ("bailingmoe bailingmoe2 llada-moe", _exact(_BAILING)),
    ("seed-coder", _exact(rf"{_ENGLISH_ANY_CASE}|{_WORD}|[\p{{N}}]| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_LINES}")),
    ("ufakzeka", _exact(rf"{_WORD}|[\p{{N}}]|{_SIGNS}")),
    ("exaone-moe", PreTokenizer((_EXAONE_MOE,))),
    ("chameleon", PreTokenizer(_CHAMELEON, clean_spaces=False, add_bos=True)),
    ("gemma4 granite-embed-multi-311m", replace(_SPM_LIKE, newline_tokens=True, force_bos=True)),
    ("mmbert", replace(_SPM_LIKE, newline_tokens=True, metaspace=True)),
    ("sarvam-moe", replace(_SPM_LIKE, clean_spaces=False)),
]  # fmt: skip

PRE_TOKENIZERS: dict[str, PreTokenizer] = {name: pre for names, pre in _FAMILIES for name in names.split()}

"""Follows the JSON object of one call, {"name": "f", "arguments": {...}}, while it is being written.

Only the structure is looked at: the arguments come out to the character as the model wrote them. That they follow the
tool's schema is the grammar's affair. Each character is looked at once.
"""

from collections.abc import Callable, Collection

SPACE = " \t\r\n"


class CallScanner:
    """names: of the tools that may be called.

    name        the tool's, None until it has been read
    is_done     the object is complete, and a call
    has_failed  it is no such object. What was fed belongs to something else

    `name` and `arguments` may come in either order; further keys are skipped. A name must be spelled without escapes.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self.name: str | None = None
        self.is_done = self.has_failed = False
        self._arguments: list[str] | None = None  # characters that were read, but not taken yet
        self._key, self._word = "", list[str]()
        self._depth, self._in_string, self._escaped = 0, False, False
        self._state: Callable[[str], None] = self._opening

    @property
    def is_call(self) -> bool:
        """It is known which tool is called, and its arguments have begun."""
        return self.name is not None and self._arguments is not None and not self.has_failed

    def take_arguments(self) -> str:
        """The arguments' text that has come since the last time."""
        assert self._arguments is not None
        text = "".join(self._arguments)
        self._arguments.clear()
        return text

    def feed(self, text: str) -> int:
        """How many characters of `text` belong to the object: all, unless it is done or has failed on the next."""
        for i, char in enumerate(text):
            self._state(char)
            if self.has_failed:
                return i
            if self.is_done:
                return i + 1
        return len(text)

    # one state a method, fed with one character

    def _opening(self, char: str) -> None:
        if char == "{":
            self._state = self._before_key
        elif char not in SPACE:
            self.has_failed = True

    def _before_key(self, char: str) -> None:
        if char == '"':
            self._state = self._in_key
            self._word.clear()
        elif char not in SPACE:
            self.has_failed = True

    def _in_key(self, char: str) -> None:
        if char == '"':
            self._key, self._state = "".join(self._word), self._after_key
        elif char == "\\":
            self.has_failed = True  # no key of ours needs it
        else:
            self._word.append(char)

    def _after_key(self, char: str) -> None:
        if char == ":":
            self._state = self._before_value
        elif char not in SPACE:
            self.has_failed = True

    def _before_value(self, char: str) -> None:
        if char in SPACE:
            return
        wanted = {"name": '"', "arguments": "{"}.get(self._key, char)
        seen = {"name": self.name, "arguments": self._arguments}.get(self._key)
        if char != wanted or seen is not None or char in ",:]}":
            self.has_failed = True
            return
        self._depth, self._state = 0, self._in_value
        self._word.clear()
        if self._key == "arguments":
            self._arguments = []
        self._in_value(char)

    def _in_value(self, char: str) -> None:
        """In a string, between brackets, or in a number or word, which only the next character ends."""
        if self._in_string:
            self._in_string = self._escaped or char != '"'
            self._escaped = char == "\\" and not self._escaped
        elif not self._depth and (char in ",}" or char in SPACE):
            self._end_of_value()
            if not self.has_failed:
                self._after_value(char)
            return
        elif char == '"':
            self._in_string = True
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1
        if self._key == "arguments":
            assert self._arguments is not None
            self._arguments.append(char)
        elif self._key == "name":
            self._word.append(char)
        if not self._depth and not self._in_string and char in '"}]':
            self._end_of_value()

    def _end_of_value(self) -> None:
        self._state = self._after_value
        if self._key == "name":
            self.name = "".join(self._word)[1:-1]
            self.has_failed = self.name not in self._names

    def _after_value(self, char: str) -> None:
        if char == ",":
            self._state = self._before_key
        elif char == "}":
            self.is_done, self.has_failed = self.is_call, not self.is_call
        elif char not in SPACE:
            self.has_failed = True

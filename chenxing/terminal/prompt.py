"""The input line of a chat. Importing this imports prompt_toolkit, so only an interactive session pays for it."""

from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

QUOTES = '"""'


class ChatPrompt:
    """Reads one message at a time.

    Enter sends; Alt-Enter starts a new line; text that begins with three double quotes goes on until three more end
    it; a paste keeps its lines. Ctrl-C empties the line.
    """

    def __init__(self, history_path: Path, words: Iterable[str]) -> None:
        self._session: PromptSession[str] = PromptSession(
            message="> ",
            multiline=True,
            prompt_continuation="  ",
            history=_history(history_path),
            auto_suggest=AutoSuggestFromHistory(),
            completer=WordCompleter(list(words), sentence=True),
            complete_while_typing=False,
            key_bindings=_key_bindings(),
        )

    def read(self) -> str:
        """The next message. Raises EOFError for Ctrl-D and KeyboardInterrupt for Ctrl-C, both at an empty prompt."""
        return unquote(self._session.prompt())


def unquote(text: str) -> str:
    """`text` without the quotes of a multi-line message and the line breaks next to them."""
    if not text.lstrip().startswith(QUOTES):
        return text
    return text.strip().removeprefix(QUOTES).removesuffix(QUOTES).strip("\n")


def is_open(text: str) -> bool:
    """`text` has begun with quotes that no later quotes have ended."""
    text = text.strip()
    return text.startswith(QUOTES) and not (len(text) >= 2 * len(QUOTES) and text.endswith(QUOTES))


def _key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_open(buffer.text):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c")
    def _empty(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            get_app().exit(exception=KeyboardInterrupt, style="class:aborting")

    return bindings


def _history(path: Path) -> History:
    """History in `path`, readable by this user alone; in memory where the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("ab"):
            return FileHistory(path)
    except OSError:
        return InMemoryHistory()

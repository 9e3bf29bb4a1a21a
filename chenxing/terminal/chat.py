"""The interactive chat: read a message or a command, answer it, again."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from chenxing.config import settings
from chenxing.errors import ChenxingError
from chenxing.terminal.answer import show_answer
from chenxing.terminal.commands import COMMANDS, find_command, run_command
from chenxing.terminal.progress import ProgressLine
from chenxing.terminal.prompt import ChatPrompt
from chenxing.terminal.render import Screen
from chenxing.terminal.session import Session
from chenxing.terminal.stats import stats_line, stop_note

if TYPE_CHECKING:
    from chenxing.engine import Generation


class Chat:
    """One interactive session on a terminal. An error or Ctrl-C ends an answer, never the session."""

    def __init__(self, session: Session, screen: Screen, progress: ProgressLine) -> None:
        self._session, self._screen, self._progress = session, screen, progress

    def run(self) -> int:
        """Until `/exit`, Ctrl-D, or Ctrl-C twice at the empty prompt; returns the exit code."""
        prompt = ChatPrompt(settings().paths.data / "history", COMMANDS)
        warned = False
        while True:
            try:
                text = prompt.read()
            except EOFError:
                return 0
            except KeyboardInterrupt:
                if warned:
                    return 0
                warned = True
                self._screen.note("Ctrl-C again or Ctrl-D leaves.")
                continue
            warned = False
            if text.strip() and not self._turn(text):
                return 0

    def _turn(self, text: str) -> bool:
        """One message or command; False when the person leaves."""
        session, on_prefill = self._session, self._progress.prefill
        command = find_command(text)
        if command is None:
            self._answer(lambda: session.ask(text, on_prefill))
            return True
        try:
            outcome = run_command(session, *command)
        except ChenxingError as error:
            self._screen.error(str(error))
            return True
        if outcome.text:
            self._screen.note(outcome.text)
        if outcome.action == "regenerate":
            self._answer(lambda: session.ask_again(on_prefill))
        return outcome.action != "leave"

    def _answer(self, start: "Callable[[], Generation]") -> None:
        session = self._session
        try:
            generation = start()
            writer = self._screen.writer(markdown=not session.raw, reasoning_opened=session.reasoning_opened)
            show_answer(generation, writer, self._progress)
        except ChenxingError as error:
            session.abandon()
            self._screen.error(str(error))
        except KeyboardInterrupt:
            session.abandon()
            self._screen.note("[stopped; the question is taken back]")
        else:
            session.record(generation)
            notes = [stop_note(generation, session.options.max_tokens), stats_line(generation.stats)]
            self._screen.note(f"[{' · '.join(note for note in notes if note)}]\n")

"""A template compiled once and rendered many times, each time with its own budget."""

from dataclasses import dataclass
from datetime import datetime
from types import CodeType, TracebackType
from typing import Any, NoReturn

from jinja2 import Template
from jinja2.exceptions import SecurityError, TemplateSyntaxError

from chenxing.chat.bounds import Meter, TemplateLimitError
from chenxing.chat.environment import TemplateRefusal, rendering_environment, shared_environment
from chenxing.chat.metering import FILENAME, Facts, compile_template
from chenxing.errors import TemplateError


class RenderError(TemplateError):
    """The template failed on these messages, or refused them by raise_exception. Other messages may pass."""


@dataclass(frozen=True)
class Program:
    code: CodeType
    facts: Facts

    def render(self, variables: dict[str, Any], meter: Meter, now: datetime) -> str:
        """The template's output.

        variables  what the template sees beside its functions
        now        the time that strftime_now gives

        Raises RenderError, TemplateLimitError (see bounds.py), TemplateError for what the sandbox forbids.
        """
        environment, functions = rendering_environment(meter, now)
        template = Template.from_code(environment, self.code, functions)
        try:
            pieces = []
            for piece in template.root_render_func(template.new_context(variables)):
                meter.spend(len(piece))
                pieces.append(piece)
        except TemplateLimitError:
            raise
        except Exception as error:  # a template is foreign code: it can fail in any way that an expression can
            _explain(error, template)
        return "".join(pieces)


def compile_program(source: str) -> Program:
    """Raises TemplateError naming the line."""
    try:
        return Program(*compile_template(source, shared_environment()))
    except TemplateSyntaxError as error:
        raise TemplateError(f"the chat template, line {error.lineno}: {error.message}") from error
    except (SyntaxError, RecursionError, MemoryError, ValueError, OverflowError) as error:
        # beyond what Python itself compiles: thousands of nested brackets, a hundred nested blocks, ...
        raise TemplateError(
            f"the chat template is nested too deeply to be compiled ({type(error).__name__})"
        ) from error


def _explain(error: Exception, template: Template) -> NoReturn:
    where = _line(error.__traceback__, template)
    if isinstance(error, SecurityError):
        raise TemplateError(f"the chat template was stopped{where}: {error}") from error
    if isinstance(error, TemplateRefusal):
        raise RenderError(f"the chat template refuses these messages{where}: {error}") from error
    raise RenderError(f"the chat template failed on these messages{where}: {type(error).__name__}: {error}") from error


def _line(traceback: TracebackType | None, template: Template) -> str:
    """The template's line where the error came up, as " (line N)"."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == FILENAME:
            line = template.get_corresponding_lineno(traceback.tb_lineno)
        traceback = traceback.tb_next
    return "" if line is None else f" (line {line})"

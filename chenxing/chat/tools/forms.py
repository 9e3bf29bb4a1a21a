"""Which form a template gets."""

from typing import TYPE_CHECKING

from chenxing.chat.tools.form import ToolForm
from chenxing.chat.tools.generic import Generic
from chenxing.chat.tools.hermes import Hermes

if TYPE_CHECKING:
    from chenxing.chat.template import ChatTemplate

FORMS: tuple[ToolForm, ...] = (Hermes(), Generic())
"""The first that fits is taken; the last fits always."""


def form_of(template: "ChatTemplate") -> ToolForm:
    """Found by trying the template (the one for tools, if there are two), which costs a few renderings."""
    return next(form for form in FORMS if form.fits(template.tool_use or template))

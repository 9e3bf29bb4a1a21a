"""A conversation shows the date of its first rendering."""

from datetime import datetime, timedelta

import pytest

from chenxing.chat.dates import shows_date
from chenxing.chat.template import ChatTemplate
from chenxing.chat.turns import Turns

SOURCE = """{{ strftime_now("%d %b %Y %H:%M") }}{% for m in messages %}|{{ m.content }}{% endfor %}"""
MORNING = datetime(2025, 7, 4, 9, 30)
SYSTEM = {"role": "system", "content": "S"}


class Clock:
    now = MORNING

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def template(clock, turns, source=SOURCE):
    return ChatTemplate(source, bos="", eos="", clock=clock, first_times=turns)


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def test_later_turns_show_the_first_date(clock, tmp_path):
    chat = template(clock, Turns(tmp_path, b"k" * 16))
    first = chat.render([SYSTEM, user("Hi")]).text
    assert first.startswith("04 Jul 2025 09:30")
    clock.now += timedelta(hours=1)
    assert chat.render([SYSTEM, user("Hi")]).text == first  # asked again, on the same day
    clock.now += timedelta(days=2)
    turns = [SYSTEM, user("Hi"), assistant("Yes?"), user("More")]
    assert chat.render(turns).text.startswith(first)
    restarted = template(clock, Turns(tmp_path, b"k" * 16))
    assert restarted.render(turns).text.startswith(first)


def test_another_conversation_gets_todays(clock):
    chat = template(clock, Turns(None, b""))
    chat.render([SYSTEM, user("Hi")])
    clock.now += timedelta(days=2)
    for messages in ([SYSTEM, user("Ho")], [user("Hi")], [user("Hi"), assistant("Yes?"), user("More")]):
        assert chat.render(messages).text.startswith("06 Jul 2025"), messages


def test_the_same_question_on_another_day_is_another_conversation(clock):
    chat = template(clock, Turns(None, b""))
    chat.render([SYSTEM, user("What day is it?")])
    clock.now += timedelta(days=1)
    assert chat.render([SYSTEM, user("What day is it?")]).text.startswith("05 Jul 2025")


def test_the_clients_lines_make_no_other_conversation(clock):
    chat = template(clock, Turns(None, b""))
    line = "x-anthropic-billing-header: cc_version=2.1.1; cc_entrypoint=cli; cch={};\n"
    first = chat.render([{"role": "system", "content": line.format("0aaa9") + "S"}, user("Hi")]).text
    clock.now += timedelta(days=1)
    system = {"role": "system", "content": line.format("36ee5") + "S"}
    assert chat.render([system, user("Hi"), assistant("Yes?")]).text.startswith(first)


def test_date_variables_too(clock):
    chat = template(clock, Turns(None, b""), "{{ date_string }} {{ messages[0].content }}")
    chat.render([user("Hi")])
    clock.now += timedelta(days=1)
    assert chat.render([user("Hi"), assistant("Yes?")]).text == "04 Jul 2025 Hi"
    assert chat.render([user("Hi"), assistant("Yes?")], date_string="today").text == "today Hi"


def test_templates_without_a_date_leave_no_trace(clock, tmp_path):
    turns = Turns(tmp_path, b"k" * 16)
    template(clock, turns, "{% for m in messages %}{{ m.content }}{% endfor %}").render([user("Hi")])
    assert list(tmp_path.iterdir()) == []
    assert shows_date(SOURCE) and not shows_date("{{ messages[0].content }}")

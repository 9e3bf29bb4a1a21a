"""The chat page in a headless Chromium: with a toy model, and with answers that a test dictates."""

import json
from collections.abc import Iterator

import browser
import pytest
from running import Running
from scripted_server import Scripted

CHROMIUM = browser.find()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on the PATH")
IS_IDLE = "!document.querySelector('#send').hidden"
ANSWER = "document.querySelector('.answer:last-child > .prose').innerText"
HOSTILE = "<script>hit = 1</script> <img src=x onerror='hit = 2'> [a](javascript:hit=3) <b>bold</b>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    assert CHROMIUM
    page = browser.Page(CHROMIUM, tmp_path_factory.mktemp("browser"))
    yield page
    page.close()


@pytest.fixture(scope="module")
def script() -> Iterator[Scripted]:
    script = Scripted()
    yield script
    script.close()


def say(page: browser.Page, text: str) -> None:
    page.evaluate("document.querySelector('#text').focus()")
    page.write(text)
    page.press("Enter", 13)


def opened(page: browser.Page, url: str) -> None:
    """An empty chat."""
    page.go(url)
    page.evaluate("localStorage.clear()")
    page.go(url)
    page.until("document.querySelector('#model').textContent")
    page.evaluate("document.querySelector('#new').click()")
    page.events.clear()


def test_a_conversation_with_a_model(server: Running, page: browser.Page):
    url = f"http://127.0.0.1:{server.port}/"
    opened(page, url)
    assert page.evaluate("document.querySelector('#model').textContent") == "toy"
    page.evaluate(
        "Object.assign(document.querySelector('[name=max_tokens]'), {value: '12'}).dispatchEvent("
        "new Event('input', {bubbles: true}))"
    )
    say(page, "the star")
    page.until(f"{IS_IDLE} && document.querySelectorAll('.answer').length === 1")
    expected = server.chat("the star", max_tokens=12).json["choices"][0]["message"]["content"]
    kept = "JSON.parse(localStorage.getItem('chenxing.conversation'))"
    assert page.evaluate(f"{kept}[1].text") == expected
    assert "12 tokens" in page.evaluate("document.querySelector('.figures').innerText")
    page.evaluate("document.querySelector('.again').click()")
    page.until(f"{IS_IDLE} && document.querySelector('.figures').innerText.includes('cached')")
    assert page.evaluate("document.querySelectorAll('.answer').length") == 1
    assert page.evaluate(f"{kept}[1].text") == expected  # temperature 0
    page.go(url)
    page.until("document.querySelectorAll('.question, .answer').length === 2")
    assert all(address.startswith(url) for address in page.addresses) and len(page.addresses) > 5
    assert page.complaints == []


def test_a_stream_is_shown_while_it_comes_and_stops(script: Scripted, page: browser.Page):
    opened(page, script.url)
    say(page, "tell")
    assert script.asked.get(timeout=120)["messages"] == [{"role": "user", "content": "tell"}]
    script.say({}, prompt_progress={"total": 2048, "cache": 0, "processed": 1024, "time_ms": 1})
    page.until("document.querySelector('.waiting').innerText.includes('1,024 of 2,048')")
    script.say({"role": "assistant", "content": None})
    script.say({"content": "Once **upon"})
    page.until(f"{ANSWER} === 'Once **upon'")
    script.say({"content": "** a time"})
    page.until(f"{ANSWER} === 'Once upon a time'")
    page.press("Escape", 27)
    assert script.is_gone.wait(120)
    page.until(IS_IDLE)
    assert page.evaluate("document.querySelector('.notice').innerText") == "Stopped"
    say(page, "go on")
    roles = [message["role"] for message in script.asked.get(timeout=120)["messages"]]
    assert roles == ["user", "assistant", "user"]
    script.end()
    page.until(IS_IDLE)


def test_a_models_text_stays_text(script: Scripted, page: browser.Page):
    opened(page, script.url)
    say(page, f"say {HOSTILE}")
    script.say(
        {"content": f"{HOSTILE}\n\n# {HOSTILE}\n\n- {HOSTILE}\n\n```<b>\n{HOSTILE}\n```\n\n|a|\n|-|\n|{HOSTILE}|"}
    )
    script.end()
    page.until(IS_IDLE)
    assert page.evaluate("typeof hit") == "undefined"
    assert page.evaluate("document.querySelectorAll('main script, main img, main b, main a').length") == 0
    assert page.evaluate("document.querySelector('main').textContent").count(HOSTILE) == 6
    page.go(script.url)
    page.until("document.querySelectorAll('.answer').length")
    assert page.evaluate("typeof hit") == "undefined"


def test_reasoning_is_folded(script: Scripted, page: browser.Page):
    opened(page, script.url)
    say(page, "think")
    script.say({"reasoning_content": "First *this*."})
    page.until("document.querySelector('.thoughts:not([hidden]) summary')?.innerText === 'Thinking…'")
    assert not page.evaluate("document.querySelector('.thoughts').open")
    script.say({"content": "Then that."})
    script.end()
    page.until(f"{IS_IDLE} && {ANSWER} === 'Then that.'")
    assert page.evaluate("document.querySelector('.thoughts .prose').textContent") == "First this."


def test_an_error_is_told_and_can_be_tried_again(script: Scripted, page: browser.Page):
    opened(page, script.url)
    say(page, "fail")
    script.say(error={"code": 503, "message": "The server is shutting down", "type": "unavailable_error"})
    page.until("document.querySelector('.notice.bad')?.innerText.includes('shutting down')")
    page.evaluate("document.querySelector('.notice button').click()")
    script.say({"content": "Here."})
    script.end()
    page.until(f"{IS_IDLE} && {ANSWER} === 'Here.'")


def test_a_key_is_asked_for(script: Scripted, page: browser.Page):
    opened(page, script.url)
    script.key = "sk-one"
    try:
        say(page, "hello")
        page.until("!document.querySelector('#key-form').hidden && document.activeElement.id === 'key'")
        page.write("sk-one")
        page.press("Enter", 13)
        script.say({"content": "Welcome."})
        script.end()
        page.until(f"document.querySelector('#key-form').hidden && {IS_IDLE} && {ANSWER} === 'Welcome.'")
    finally:
        script.key = None


def test_enter_sends_and_shift_enter_does_not(script: Scripted, page: browser.Page):
    while not script.asked.empty():
        script.asked.get()
    opened(page, script.url)
    page.evaluate("document.querySelector('#text').focus()")
    page.write("one")
    page.press("Enter", 13, shift=True)
    page.write("two")
    page.press("Enter", 13)
    assert script.asked.get(timeout=120)["messages"][0]["content"] == "one\ntwo"
    script.end()
    page.until(IS_IDLE)


def test_the_documents_page(server: Running, page: browser.Page):
    page.events.clear()
    url = f"http://127.0.0.1:{server.port}/"
    page.go(f"{url}docs")
    page.until("document.querySelectorAll('.operation').length > 20")
    paths = set(server.get("/openapi.json").json["paths"])
    text = page.evaluate("document.querySelector('main').textContent")
    assert all(path in text for path in paths)
    assert page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')].every((a) => document.querySelector(a.hash))"
    )
    assert f"curl {url}v1/chat/completions" in text and "messages" in text
    assert all(address.startswith(url) for address in page.addresses) and page.complaints == []


MARKDOWN = [
    ("a **b _c_** `<d>` ~~e~~", "<p>a <strong>b <em>c</em></strong> <code>&lt;d&gt;</code> <s>e</s></p>"),
    ("2 * 3 * 4, a_b_c, \\*d\\*, **e", "<p>2 * 3 * 4, a_b_c, *d*, **e</p>"),
    ("# One\n\n---\n> two", "<h3>One</h3><hr><blockquote><p>two</p></blockquote>"),
    ("1. a\n   - b\n\n   c\n2. d", "<ol start=1><li><p>a</p><ul><li>b</li></ul><p>c</p></li><li>d</li></ol>"),
    ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
    (
        "|a|b|\n|:-:|-:|\n|1|`2`|",
        "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>"
        "<code>2</code></td></tr></tbody></table>",
    ),
    ("~~~py\nx\n```\n~~~\ny", "py<pre><code>x\n```</code></pre><p>y</p>"),
    ("```\nopen <i>", "<pre><code>open &lt;i&gt;</code></pre>"),
    (
        "[x](https://a.b/c_(d)) https://e.f.",
        "<p><a href=https://a.b/c_(d)>x</a> <a href=https://e.f>https://e.f</a>.</p>",
    ),
    ("[x](ftp://a) [y](//b) ![z](data:1)", "<p>[x](ftp://a) [y](//b) ![z](data:1)</p>"),
    ("a\nb", "<p>a<br>b</p>"),
]


@pytest.mark.parametrize(("text", "expected"), MARKDOWN, ids=[str(i) for i in range(len(MARKDOWN))])
def test_markdown(script: Scripted, page: browser.Page, text, expected):
    """As HTML without its wrappers, buttons, and attributes but two."""
    if not page.evaluate("location.href").startswith(script.url):
        page.go(script.url)
    html = page.evaluate(
        "import('./page/render.js').then(({ Prose }) => { const prose = new Prose(); prose.show("
        + json.dumps(text)
        + """);
        const skip = new Set(['DIV', 'SPAN', 'BUTTON']);
        const walk = (node) => {
          if (node.nodeType === 3) return node.data.replaceAll('<', '&lt;').replaceAll('>', '&gt;');
          const inner = node.tagName === 'BUTTON' ? '' : [...node.childNodes].map(walk).join('');
          if (skip.has(node.tagName)) return inner;
          const tag = node.tagName.toLowerCase();
          const shown = ['href', 'start'].filter((name) => node.hasAttribute(name));
          const attributes = shown.map((name) => ` ${name}=${node.getAttribute(name)}`).join('');
          return `<${tag}${attributes}>` + (['br', 'hr'].includes(tag) ? '' : `${inner}</${tag}>`);
        };
        return walk(prose.element); })"""
    )
    assert html == expected


def test_markdown_takes_time_in_proportion(script: Scripted, page: browser.Page):
    """Whatever a model writes, ten times of it take not a hundred times as long: here it would be minutes."""
    hostile = [
        "*",
        "*a ",
        "_a",
        "**a*",
        "[",
        "[a](",
        "`",
        "|",
        "> ",
        "- ",
        "a|b\n|-|\n",
        "http://",
        "#",
        "\\",
        "~~",
        "\n",
    ]
    pieces = json.dumps(hostile)
    page.go(script.url)
    done = page.evaluate(
        f"import('./page/markdown.js').then(({{ parse }}) => {pieces}.map((p) => parse(p.repeat(50000)).length).length)"
    )
    assert done == len(hostile)

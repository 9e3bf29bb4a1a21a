"""Templates that attack: they are stopped soon, with little memory, and run nothing of ours."""

import time
import tracemalloc

import pytest

from chenxing.chat.bounds import MAX_SECONDS, TemplateLimitError
from chenxing.chat.template import ChatTemplate
from chenxing.errors import TemplateError

MESSAGES = [{"role": "user", "content": "Hi"}]

DOUBLING = (
    "{{% set ns = namespace(s={0}) %}}{{% for i in range(90) %}}{{% set ns.s = {1} %}}{{% endfor %}}{{{{ {2} }}}}"
)

ENDLESS = {
    "nested loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "loops over messages": "{% for a in range(99999) %}{% for b in messages * 99999 %}{% endfor %}{% endfor %}",
    "loop with output": "{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
    "multiplied text": "{{ 'x' * 10 ** 10 }}",
    "multiplied text, the other way": "{{ 10 ** 10 * 'x' }}",
    "multiplied list": "{{ ([1] * 10 ** 9) | length }}",
    "doubled text": DOUBLING.format("'ab'", "ns.s + ns.s", "ns.s | length"),
    "doubled text by ~": DOUBLING.format("'ab'", "ns.s ~ ns.s", "ns.s | length"),
    "doubled text by format": DOUBLING.format("'ab'", "'%s%s' % (ns.s, ns.s)", "ns.s | length"),
    "doubled text by str.format": DOUBLING.format("'ab'", "'{}{}'.format(ns.s, ns.s)", "ns.s | length"),
    "doubled text by join": DOUBLING.format("'ab'", "[ns.s, ns.s] | join", "ns.s | length"),
    "doubled text by str.join": DOUBLING.format("'ab'", "''.join([ns.s, ns.s])", "ns.s | length"),
    "doubled text by a macro": "{% macro m(s) %}{{ s }}{{ s }}{% endmacro %}" + DOUBLING.format("'ab'", "m(ns.s)", "1"),
    "doubled text by replace": DOUBLING.format("'ab'", "ns.s.replace('a', ns.s)", "ns.s | length"),
    "doubled text by the replace filter": DOUBLING.format("'ab'", "ns.s | replace('b', ns.s)", "ns.s | length"),
    "doubled list": DOUBLING.format("[1]", "ns.s + ns.s", "ns.s | length"),
    "list of lists, printed": DOUBLING.format("[1]", "[ns.s, ns.s]", "ns.s"),
    "list of lists, as JSON": DOUBLING.format("[1]", "[ns.s, ns.s]", "ns.s | tojson | length"),
    "list of lists, joined": DOUBLING.format("[1]", "[ns.s, ns.s]", "ns.s | join"),
    "list of lists, compared": DOUBLING.format("[1]", "[ns.s, ns.s]", "[ns.s] == [[ns.s, 1]]"),
    "dict of dicts, as items": DOUBLING.format("{'a': 1}", "{'a': ns.s, 'b': ns.s}", "ns.s.items()"),
    "tuple of tuples, hashed": DOUBLING.format("()", "(ns.s, ns.s)", "{ns.s: 1}"),
    "namespaces in namespaces": DOUBLING.format("1", "[namespace(a=ns.s, b=ns.s)] * 2", "ns.s") + "{{ 'x' * 10 ** 9 }}",
    "slices that are kept": "{% set ns = namespace(l=[], s='x' * 10 ** 6) %}"
    "{% for i in range(9999) %}{% set ns.l = ns.l + [ns.s[1:]] %}{% endfor %}",
    "splitting": "{% for i in range(9999) %}{% set x = ('a,' * 10 ** 6).split(',') %}{% endfor %}",
    "characters of a long text": "{{ ('x' * 10 ** 6) | list | length }}" * 30,
    "indentation": "{{ ('\n' * 10 ** 6) | indent(10 ** 6) | length }}",
    "indentation of JSON": "{{ [[[1] * 9999]] | tojson(indent=10 ** 6) | length }}",
    "wide separators of JSON": "{{ ([1] * 9999) | tojson(separators=('x' * 9999, ':')) | length }}",
    "replacing nothing": "{{ ('x' * 10 ** 6) | replace('', 'y' * 1000) | length }}",
    "lazy filters in lazy filters": "{{ range(99999)" + " | map('string')" * 40 + " | list | length }}",
    "recursive loop": "{% for i in [1] recursive %}{{ loop(range(99999)) if loop.depth < 9 }}{% endfor %}",
    "branching recursion": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(90) }}",
}


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS.keys())
def test_endless_templates_are_cut_off(source):
    template = ChatTemplate(source, bos="", eos="")
    start = time.thread_time()
    with pytest.raises(TemplateLimitError, match="cut off"):
        template.render(MESSAGES)
    # the meter looks at the clock between operations: an operation adds at most its own time
    assert time.thread_time() - start < MAX_SECONDS + 2.0


@pytest.mark.parametrize(
    "name", ["multiplied text", "doubled text", "slices that are kept", "splitting", "doubled list"]
)
def test_memory_stays_bounded(name):
    template = ChatTemplate(ENDLESS[name], bos="", eos="")
    with pytest.raises(TemplateLimitError):  # compiled, and stopped once, before memory is looked at
        template.render(MESSAGES)
    tracemalloc.start()
    try:
        with pytest.raises(TemplateLimitError):
            template.render(MESSAGES)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 150e6  # 8 M units: 8 MB of text, or half a million list elements of 60 to 150 bytes


FORBIDDEN = {
    "class": "{{ ''.__class__ }}",
    "class by subscript": "{{ ''['__class__'] }}",
    "class by filter": "{{ '' | attr('__class__') }}",
    "class by map": "{{ [''] | map(attribute='__class__') | list }}",
    "class by format": "{{ '{0.__class__}'.format('') }}",
    "class by format_map": "{{ '{a.__class__}'.format_map({'a': ''}) }}",
    "method resolution order": "{{ namespace.mro() }}",
    "subclasses": "{{ ().__class__.__base__.__subclasses__() }}",
    "globals of a function": "{{ raise_exception.__globals__ }}",
    "code of a macro": "{% macro m() %}{% endmacro %}{{ m._func }}",
    "environment of a macro": "{% macro m() %}{% endmacro %}{{ m._environment }}",
    "context of self": "{{ self._TemplateReference__context }}",
    "iterator of a loop": "{% for i in [1] %}{{ loop._iterator }}{% endfor %}",
    "changing the messages": "{{ messages.append(1) }}",
    "changing a message": "{{ messages[0].update(role='system') }}",
    "bytes": "{{ 'x'.encode() }}",
    "a number's bytes": "{{ (1).to_bytes(10 ** 9, 'big') }}",
    "padding": "{{ 'x'.ljust(10 ** 9) }}",
    "zeros": "{{ 'x'.zfill(10 ** 9) }}",
    "tabs": "{{ '\t'.expandtabs(10 ** 9) }}",
    "translation": "{{ 'x'.translate({120: 'y' * 99}) }}",
    "wide field": "{{ '%999999999d' % 1 }}",
    "wide field from an argument": "{{ '%*d' % (10 ** 9, 1) }}",
    "wide field of format": "{{ '{:>999999999}'.format(1) }}",
    "wide field of format from an argument": "{{ '{:>{}}'.format(1, 10 ** 9) }}",
    "power": "{{ 10 ** (10 ** 10) }}",
    "squares": DOUBLING.format("3", "ns.s * ns.s", "1"),
    "a value that is no function": "{{ {'a': 1}() }}",
}


@pytest.mark.parametrize("source", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_forbidden_things_stop_the_template(source):
    with pytest.raises(TemplateError, match=r"chat template (was stopped|failed)"):
        print(ChatTemplate(source + "{{ 'went on' }}", bos="", eos="").render(MESSAGES))


@pytest.mark.parametrize("name", ["lipsum", "cycler", "joiner", "self.__init__", "__builtins__", "import"])
def test_jinja2s_other_functions_are_not_there(name):
    with pytest.raises(TemplateError):
        ChatTemplate(f"{{{{ {name}(1) }}}}", bos="", eos="").render(MESSAGES)


@pytest.mark.parametrize("tag", ["include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'"])
def test_no_other_template_is_loaded(tag):
    with pytest.raises(TemplateError, match="cannot load another template"):
        ChatTemplate(f"{{% {tag} %}}", bos="", eos="").render(MESSAGES)


def test_deep_recursion_is_an_error():
    source = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"
    with pytest.raises(TemplateError, match="RecursionError"):
        ChatTemplate(source, bos="", eos="").render(MESSAGES)


def test_a_long_conversation_passes():
    # 2,000 messages and 1 MB of text through the constructs that real templates use on each message
    source = (
        "{% set ns = namespace(last=0) %}{% for m in messages[::-1] %}{% if m.role == 'user' and not ns.last %}"
        "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}"
        "{% set c = m.content.split('</think>')[-1].lstrip('\n') if '</think>' in m.content else m.content | trim %}"
        "{% if loop.index0 + ns.last > 0 and (loop.last or c) %}{{ '<' + m.role + '>' ~ c ~ (m | tojson) }}{% endif %}"
        "{% endfor %}"
    )
    messages = [{"role": ("user", "assistant")[i % 2], "content": f"{i}: " + "word " * 100} for i in range(2000)]
    text = ChatTemplate(source, bos="", eos="").render(messages).text
    assert len(text) > 2_000_000
    assert text.endswith('word "}')


def test_allowed_calls_work():
    source = (
        "{{ 'a-b'.split('-') | join('+') }} {{ {'k': 'v'}.get('k') }} {{ {'k': 'v'}.items() | list }} "
        "{{ [1, 2].index(2) }} {{ '%-5s|' % 'ab' }} {{ '{:>4}'.format(7) }} {{ 2 ** 10 }} {{ (1, 2) + (3,) }} "
        "{% for i in [1, 2] %}{{ loop.cycle('x', 'y') }}{% endfor %} {{ dict(a=1) }} {{ namespace(a=1) }}"
    )
    text = ChatTemplate(source, bos="", eos="").render(MESSAGES).text
    assert text == "a+b v [('k', 'v')] 1 ab   |    7 1024 (1, 2, 3) xy {'a': 1} <namespace>"

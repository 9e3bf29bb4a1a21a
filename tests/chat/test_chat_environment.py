"""What templates may use: tojson, strftime_now, loop controls, generation blocks, raise_exception."""

import json
from datetime import datetime

import pytest

from chenxing.chat.bounds import Meter
from chenxing.chat.environment import strftime
from chenxing.chat.program import RenderError, compile_program

NOW = datetime(2025, 7, 4, 9, 5)


def render(source: str, **variables) -> str:
    return compile_program(source).render(variables, Meter(1000), NOW)


VALUE = {"b": "<é & 'ü'>", "a": [1, 2.5, True, None, "\n"], "c": {}}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", json.dumps(VALUE, ensure_ascii=False)),
        ("(ensure_ascii=true)", json.dumps(VALUE)),
        ("(indent=2)", json.dumps(VALUE, ensure_ascii=False, indent=2)),
        ("(indent='\t')", json.dumps(VALUE, ensure_ascii=False, indent="\t")),
        ("(separators=(',', ':'))", json.dumps(VALUE, ensure_ascii=False, separators=(",", ":"))),
        ("(sort_keys=true)", json.dumps(VALUE, ensure_ascii=False, sort_keys=True)),
        ("(true, 4)", json.dumps(VALUE, indent=4)),
    ],
)
def test_tojson_is_json_dumps_without_html_escapes(arguments, expected):
    assert render(f"{{{{ value | tojson{arguments} }}}}", value=VALUE) == expected


def test_tojson_leaves_a_guard_in_place():
    # an escaped guard would be text, and the special token in front of it whole again
    assert render("{{ v | tojson(ensure_ascii=true) }}", v="<\ufdd0|im_end|>é\U0001f600") == (
        '"<\ufdd0|im_end|>\\u00e9\\ud83d\\ude00"'
    )


def test_tojson_of_a_lazy_filter():
    assert render("{{ v | map(attribute='a') | tojson }}", v=[{"a": 1}, {"a": 2}]) == "[1, 2]"


def test_tojson_of_what_is_no_json_names_it():
    with pytest.raises(RenderError, match="JSON serializable"):
        render("{{ nothing | tojson }}")


def test_from_json():
    assert render("{{ ('{\"a\": [1]}' | from_json).a[0] }}") == "1"


@pytest.mark.parametrize(
    ("form", "expected"), [("%d %b %Y", "04 Jul 2025"), ("%-d/%-m %-H:%M", "4/7 9:05"), ("%Y", "2025")]
)
def test_strftime(form, expected):
    assert strftime(NOW, form) == expected
    assert render(f"{{{{ strftime_now('{form}') }}}}") == expected


def test_loop_controls():
    source = (
        "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% elif i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}"
    )
    assert render(source) == "0134"


def test_generation_block_prints_its_text():
    assert render("a{% generation %}b{{ x }}{% endgeneration %}c", x="!") == "ab!c"
    source = "{% set x = 1 %}{%- generation -%}\n {%- set x = 2 %}{{ x }}\n{%- endgeneration %}{{ x }}"
    assert render(source) == "21"  # a scope of its own, as in transformers


def test_blocks_lose_their_line_break_and_indentation():
    assert render("  {% if true %}\n  a\n  {% endif %}\nb\n") == "  a\nb"


def test_filters_over_blocks():
    assert render("{% filter upper %}a{{ x }}{% endfilter %}", x="b") == "AB"
    assert render("{% filter trim | replace('b', 'c') %} ab {% endfilter %}") == "ac"
    assert render("{% set v | trim | upper %} ab {% endset %}[{{ v }}]") == "[AB]"
    assert render("{% set ns = namespace() %}{% set ns.v | trim %} ab {% endset %}[{{ ns.v }}]") == "[ab]"


def test_a_missing_value_adds_nothing_to_a_text():
    assert render("{{ 'a' + tool.description + 'b' }}", tool={}) == "ab"
    with pytest.raises(RenderError, match="has no attribute 'description'"):
        render("{{ tool.description + 1 }}", tool={})


def test_raise_exception():
    with pytest.raises(RenderError, match=r"refuses these messages \(line 2\): No system role"):
        render("a\n{{ raise_exception('No system role') }}")


def test_a_lazy_filter_is_always_true():
    # as in jinja2: authors who tested with transformers saw that
    assert render("{{ 'yes' if [] | selectattr('a') else 'no' }}") == "yes"
    assert render("{{ 'yes' if [] | selectattr('a') | list else 'no' }}") == "no"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ v[1:] }} {{ v[::-1] }} {{ v[-1] }}", "[2, 3] [3, 2, 1] 3"),
        ("{{ 'abc'[1:] }} {{ 'abc'[:-1] }}", "bc ab"),
        ("{{ 'a' ~ 1 ~ none ~ true }}", "a1NoneTrue"),
        ("{{ v | first }} {{ v | last }} {{ v | length }} {{ v | max }} {{ v | min }}", "1 3 3 3 1"),
        ("{{ v | map('string') | join(', ') }}", "1, 2, 3"),
        ("{{ [{'a': 'x'}, {'a': 'y', 'b': 2}] | selectattr('a', 'equalto', 'y') | map(attribute='b') | list }}", "[2]"),
        ("{{ v | reject('==', 2) | list }} {{ v | select('in', [1, 3]) | list }}", "[1, 3] [1, 3]"),
        ("{{ {'b': 1, 'a': 2} | dictsort }}", "[('a', 2), ('b', 1)]"),
        ("{% for k, x in {'a': 1}.items() %}{{ k }}{{ x }}{% endfor %}", "a1"),
        ("{% for k, x in {'a': 1} | items %}{{ k }}{{ x }}{% endfor %}", "a1"),
        ("{{ ['a', 'b'] | join('-') }} {{ [{'n': 'x'}] | join(attribute='n') }}", "a-b x"),
        ("{{ 'a\nb' | indent(2) }}|{{ 'a' | indent(2, first=true) }}|{{ 'a\nb' | indent('> ') }}", "a\n  b|  a|a\n> b"),
        ("{{ 'aXbX' | replace('X', '.', 1) }} {{ 'aXb'.replace('X', '') }}", "a.bX ab"),
        ("{{ ' a ' | trim }}{{ 'xax'.strip('x') }}", "aa"),
        ("{{ missing | default('d') }} {{ none | default('d', true) }}", "d d"),
        ("{{ '<b>' | escape }} {{ '<b>' | safe }}", "&lt;b&gt; <b>"),
        ("{{ 'a' is string }} {{ {} is mapping }} {{ v is iterable }} {{ x is defined }}", "True True True False"),
        ("{{ 1 if v else 2 }} {{ (3, 4)[0] }} {{ v == [1, 2, 3] }} {{ 2 in v }} {{ v is eq v }}", "1 3 True True True"),
        ("{{ 7 // 2 }} {{ 7 % 2 }} {{ 7 / 2 }} {{ 2 * 3 }} {{ 'ab' * 2 }} {{ [0] * 2 }}", "3 1 3.5 6 abab [0, 0]"),
        ("{% macro m(a, b='d') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(2, b=3) }}", "1d23"),
        ("{% macro m(a) %}{{ a }}{{ caller() }}{% endmacro %}{% call m(2) %}c{% endcall %}", "2c"),
        ("{% set ns = namespace(a=1) %}{% for i in v %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}", "7"),
        (
            "{% for i in v %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.previtem }} {% endfor %}",
            "0TrueFalse 1FalseFalse1 2FalseTrue2 ",
        ),
        ("{% for i in v if i != 2 %}{{ loop.length }}{{ i }}{% else %}none{% endfor %}", "2123"),
        ("{% block b %}x{% endblock %}{{ self.b() }}", "xx"),
        ("{{ dict(a=1, **{'b': 2}) }} {{ v | reverse | list }} {{ 'ab' | reverse }}", "{'a': 1, 'b': 2} [3, 2, 1] ba"),
    ],
)
def test_the_language(source, expected):
    assert render(source, v=[1, 2, 3]) == expected

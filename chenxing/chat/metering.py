"""Compiles a template so that nothing in it goes round the meter, and notes what the template says about itself.

jinja2 compiles loops, slices, `~`, comparisons, tuples and filters to plain Python that its sandbox does not see. The
tree is rewritten so that each of them becomes a call of a method of BoundedEnvironment.
"""

from dataclasses import dataclass
from types import CodeType
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.visitor import NodeTransformer

from chenxing.chat.sandbox import BoundedEnvironment

FILENAME = "<chat template>"
MAX_SOURCE = 1 << 20
"""Characters. The largest template in use has about 20,000; a loop round's cost is bounded by the template's length."""

BLOCK = "_filtered_block"
"""The variable that holds the text of a filter block."""

_COMPARING_TESTS = "== != < <= > >= eq equalto ne lt lessthan le gt greaterthan ge in"
_SEARCHES = """
    count endswith find index partition removeprefix removesuffix replace rfind rindex rpartition rsplit split
    startswith
"""
COMPARING_TESTS = frozenset(_COMPARING_TESTS.split())
SEARCHES = frozenset(_SEARCHES.split())
"""String methods whose arguments are texts that the template looks for."""


@dataclass(frozen=True)
class Facts:
    """What a template's tree tells without running it.

    strings  every quoted string: the roles that it knows, tool formats, ...
    keys     every attribute and key that it reads from a message, tool, ...
    sought   texts that it looks for inside other texts: `'</think>' in content`, `content.split('</think>')`
    """

    strings: frozenset[str]
    keys: frozenset[str]
    sought: frozenset[str]


def compile_template(source: str, environment: BoundedEnvironment) -> tuple[CodeType, Facts]:
    """Code of the metered template. Raises jinja2's TemplateSyntaxError."""
    if len(source) > MAX_SOURCE:
        raise TemplateSyntaxError(f"expected at most {MAX_SOURCE} characters, found {len(source)}", 1)
    tree = environment.parse(source)
    facts = _facts(tree)
    _Metering(environment).visit(tree)
    return environment.compile(tree, name="chat template", filename=FILENAME), facts


def _facts(tree: nodes.Template) -> Facts:
    assigned = {
        node.target.name: node.node.value
        for node in tree.find_all(nodes.Assign)
        if isinstance(node.target, nodes.Name) and isinstance(node.node, nodes.Const)
    }

    def constants(expressions: list[nodes.Expr]) -> list[Any]:
        return [
            assigned.get(e.name) if isinstance(e, nodes.Name) else e.value
            for e in expressions
            if isinstance(e, (nodes.Const, nodes.Name))
        ]

    sought: list[Any] = []
    for compare in tree.find_all(nodes.Compare):
        if any(operand.op in ("in", "notin") for operand in compare.ops):
            sought += constants([compare.expr])
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr) and call.node.attr in SEARCHES:
            sought += constants(call.args)
    for filter_ in tree.find_all(nodes.Filter):
        if filter_.name == "replace":
            sought += constants(filter_.args)
    strings = [node.value for node in tree.find_all(nodes.Const)]
    keys = [node.attr for node in tree.find_all(nodes.Getattr)]
    keys += [value for node in tree.find_all(nodes.Getitem) for value in constants([node.arg])]
    keys += [v for call in tree.find_all(nodes.Call) if _is_get(call) for v in constants(call.args[:1])]
    return Facts(_texts(strings), _texts(keys), _texts(sought))


def _is_get(call: nodes.Call) -> bool:
    return isinstance(call.node, nodes.Getattr) and call.node.attr == "get"


def _texts(values: list[Any]) -> frozenset[str]:
    return frozenset(value for value in values if isinstance(value, str) and value)


class _Metering(NodeTransformer):
    """Puts BoundedEnvironment.OPERATIONS in place of what jinja2 would compile to plain Python."""

    def __init__(self, environment: BoundedEnvironment) -> None:
        self._environment = environment

    def _operation(self, name: str, at: nodes.Node, args: list[Any], like: Any = None) -> nodes.Call:
        function = nodes.EnvironmentAttribute(name)
        kwargs = [] if like is None else [nodes.Keyword(pair.key, pair.value) for pair in like.kwargs]
        extra = (None, None) if like is None else (like.dyn_args, like.dyn_kwargs)
        call = nodes.Call(function, args, kwargs, *extra)
        return call.set_lineno(at.lineno, override=True).set_environment(self._environment)  # type: ignore[return-value]

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(self._operation("step", node, []), lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self._operation("joined", node, node.nodes)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        ends = [end or nodes.Const(None) for end in (node.arg.start, node.arg.stop, node.arg.step)]
        return self._operation("piece", node, [node.node, *ends])

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        if node.ctx != "load" or all(isinstance(item, nodes.Const) for item in node.items):
            return node
        return self._operation("tuple_made", node, [node])

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        sides = [node.expr, *(operand.expr for operand in node.ops)]
        if not any(isinstance(side, nodes.Const) for side in sides):  # with a constant it cannot take long
            node.expr = self._operation("operand", node, [node.expr])
            for operand in node.ops[:-1]:
                operand.expr = self._operation("operand", node, [operand.expr])
        return node

    def visit_Test(self, node: nodes.Test) -> nodes.Node:
        self.generic_visit(node)
        if node.name in COMPARING_TESTS:
            node.node = self._operation("operand", node, [node.node])
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
        self.generic_visit(node)
        assert node.node is not None  # blocks' filters are taken apart below
        return self._operation("filtered", node, [nodes.Const(node.name), node.node, *node.args], like=node)

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node | list[nodes.Node]:
        """`{% set name | filter %}...{% endset %}` becomes a plain block and `{% set name = name | filter %}`."""
        chain, node.filter = node.filter, None
        self.generic_visit(node)
        if chain is None:
            return node
        innermost = chain
        while isinstance(innermost.node, nodes.Filter):
            innermost = innermost.node
        innermost.node = _loaded(node.target)
        return [node, nodes.Assign(node.target, self.visit(chain), lineno=node.lineno)]

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.Node:
        """`{% filter name %}...{% endfilter %}` becomes a block that is set, and its output."""
        block = nodes.AssignBlock(nodes.Name(BLOCK, "store"), node.filter, node.body, lineno=node.lineno)
        output = nodes.Output([nodes.Name(BLOCK, "load")], lineno=node.lineno)
        return self.generic_visit(nodes.Scope([block, output], lineno=node.lineno))

    def visit_EvalContextModifier(self, node: nodes.Node) -> nodes.Node:
        raise TemplateSyntaxError("autoescape is not supported in chat templates", node.lineno)

    visit_ScopedEvalContextModifier = visit_EvalContextModifier

    def visit_Include(self, node: nodes.Node) -> nodes.Node:
        raise TemplateSyntaxError("a chat template cannot load another template", node.lineno)

    visit_Import = visit_FromImport = visit_Extends = visit_Include


def _loaded(target: nodes.Expr) -> nodes.Expr:
    """The expression that reads what an assignment to `target` wrote."""
    if isinstance(target, nodes.NSRef):
        return nodes.Getattr(nodes.Name(target.name, "load"), target.attr, "load")
    assert isinstance(target, nodes.Name)
    return nodes.Name(target.name, "load")

"""How an expression is evaluated, as lines of text: canonical form, rewrites, fields, columns, generated code."""

from __future__ import annotations

from collections.abc import Mapping

from sowctl.expressions.compile import Compiled, compile_filter, compile_value
from sowctl.expressions.functions.signature import Function
from sowctl.expressions.rewrites import Applied, conjuncts, rewrite
from sowctl.expressions.syntax.nodes import Node
from sowctl.values.fields import Slot


def explain(text: str, *, as_filter: bool, functions: Mapping[str, Function] | None = None) -> list[str]:
    """The plan of a filter or value; ``functions`` are those of loaded modules. Raises ExpressionError."""
    extra = {} if functions is None else functions
    compiled = compile_filter(text, extra=extra) if as_filter else compile_value(text, extra=extra)
    if compiled.node is None:
        return ["expression  (empty: matches everything)"]
    steps: list[Applied] = []
    node = rewrite(compiled.node, steps)
    lines = [f"expression  {compiled.node}"]
    lines += [f"rewrite     {step.name}: {step.before}  ->  {step.after}" for step in steps]
    if steps:
        lines.append(f"rewritten   {node}")
    if as_filter:
        lines += [f"condition   {condition}" for condition in conjuncts(compiled.node)]
    lines += [_slot(slot) for slot in compiled.slots] or ["field       none"]
    if compiled.uses_header:
        lines.append("header      the record's header is read")
    lines += [f"columns     row by row, or once for each distinct text: {node}" for node in _by_rows(compiled)] or [
        "columns     all of it, where the values of a field are of one kind"
    ]
    lines += [f"plan        {line}" for line in compiled.source.splitlines()]
    return lines


def _by_rows(compiled: Compiled) -> list[Node]:
    from sowctl.expressions.columns import ColumnProgram

    return ColumnProgram(compiled).unvectorised()


def _slot(slot: Slot) -> str:
    wanted = [word for word, asked in (("original text", slot.text), ("all values", slot.listed)) if asked]
    return f"field       {slot.path}" + (f"  ({', '.join(wanted)})" if wanted else "")

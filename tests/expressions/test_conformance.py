"""Every conformance case runs through both evaluators; more files may be named in SOWCTL_CONFORMANCE."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sowctl.errors import InputError, SowError, UsageError
from sowctl.expressions.aggregates.table import AGGREGATES
from sowctl.expressions.columns import ColumnProgram
from sowctl.expressions.compiler import (
    Filter,
    compile_fields,
    compile_filter,
    compile_node,
    compile_projection,
    compile_value,
)
from sowctl.expressions.context import Context
from sowctl.expressions.environment import NO_HEADER, Environment, Header
from sowctl.expressions.rows.joinplan import find_source
from sowctl.expressions.rows.program import CompiledValue
from sowctl.expressions.rows.projection import Projection
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.errors import ExpressionError
from sowctl.expressions.syntax.joins import JoinSide, parse_join
from sowctl.expressions.syntax.parser import parse_field, parse_grouping, parse_order_by, parse_projection
from sowctl.expressions.syntax.selectlist import parse_select
from sowctl.expressions.syntax.trees import walk_tree
from sowctl.messages.types import get_type
from sowctl.values.fields import Number, Row, Slot, ValueList
from sowctl.values.order import is_numeric
from sowctl.values.scalars import to_text
from tests.expressions.alike import same
from tests.expressions.grouped import project
from tests.support import jsonslots
from tests.support.joins import left_join
from tests.support.orders import sort_key

BLANK = {"json": "{}", "xml": "<x/>", "msgpack": "{}", "bson": "{}", "bflat": "{}"}
"""What stands for the message of a case that has none."""
HERE = Path(__file__).parent
CONTEXTS = {
    "filter": Context.QUERY_FILTER,
    "barrier": Context.BARRIER,
    "filter_oof": Context.OOF_FILTER,
    "filter_paginated": Context.PAGINATED_FILTER,
    "filter_view": Context.VIEW_FILTER,
    "filter_conflated": Context.CONFLATED_FILTER,
    "filter_queue": Context.QUEUE_FILTER,
    "filter_replication": Context.REPLICATION_FILTER,
    "filter_aggregated_query": Context.AGGREGATED_QUERY_FILTER,
    "filter_aggregated_subscription": Context.AGGREGATED_SUBSCRIPTION_FILTER,
    "preprocessing": Context.PREPROCESSING,
    "enrichment": Context.ENRICHMENT,
    "enrichment_conflated": Context.CONFLATED_ENRICHMENT,
    "priority": Context.QUEUE_PRIORITY,
    "projection": Context.PROJECTION,
}


def cases() -> Iterator[dict[str, Any]]:
    files = [
        HERE / "conformance.jsonl",
        HERE / "conformance-own.jsonl",
        *map(Path, filter(None, os.environ.get("SOWCTL_CONFORMANCE", "").split(os.pathsep))),
    ]
    for file in files:
        for line in file.read_text(encoding="utf-8").split("\n"):
            if line.strip():
                yield json.loads(line)


def shape(case: dict[str, Any]) -> str:
    for name in ("fields", "projection", "order_by", "select"):
        if name in case:
            return name
    return "expr"


def of_shape(*shapes: str) -> list[Any]:
    return [pytest.param(case, id=str(case.get("id"))) for case in cases() if shape(case) in shapes]


def header_of(given: dict[str, Any]) -> Header:
    names = {"topic_name": "topic", "remote_address": "remote_address", "message_size": "payload_size"}
    header = {names.get(name, name): value for name, value in given.items() if not name.startswith("amps_")}
    for name in ("last_updated", "last_read", "last_leased"):
        if header.get(name) is not None:
            header[name] = round(header[name] * 1_000_000)
    return Header(**header)


def environment_of(case: dict[str, Any]) -> Environment:
    header = case.get("header", {})
    now = round(case.get("now", 0) * 1_000_000)
    return Environment(lambda: now, header.get("amps_instance_name"), header.get("amps_group_name"))


def evaluate(case: dict[str, Any]) -> Any:
    """The value of a case by the row evaluator, which the columnar one must confirm."""
    context = CONTEXTS[case.get("context", "filter")]
    kind = case.get("type", "json")
    message = case.get("message", BLANK.get(kind, ""))
    is_filter = case.get("context", "").startswith(("filter", "barrier"))
    compiled = compile_filter(case["expr"], context) if is_filter else compile_value(case["expr"], context)
    header = header_of({"message_size": len(message.encode()), **case.get("header", {})})
    rows = [rows_of([message], compiled.slots, kind)[0]]
    before = before_of(case, compiled.previous_slots, kind)
    both = agreed(compiled, rows, environment_of(case), [header], before)
    return both[0]


def agreed(
    compiled: Any, rows: list[Row], env: Environment, headers: list[Header], before: list[Row | None] | None = None
) -> list[Any]:
    """The results of the row evaluator, after the columnar one has given the same, alone and among other rows."""
    blank = tuple(ValueList(()) if slot.listed else None for slot in compiled.slots)
    before = before or [None] * len(rows)
    for many, stored, heads in (
        (rows, before, headers),
        ([*rows, blank, *rows], [*before, None, *before], [*headers, NO_HEADER, *headers]),
    ):
        results = evaluated(compiled, many, env, heads, stored)
        program = ColumnProgram(compiled)
        batch = program.build_batch(many, stored)
        if isinstance(compiled, Filter):
            mask = program.evaluate_mask(batch, env, heads).tolist()
            assert mask == results
        elif not isinstance(compiled.node, n.Call) or compiled.node.name != "UUID7":
            columns = program.evaluate_column(batch, env, heads).repeat_values(len(many))
            assert all(map(same, results, columns)), (results, columns, program.list_fallbacks())
    return results[: len(rows)]


def evaluated(
    compiled: Any, rows: list[Row], env: Environment, headers: list[Header], before: list[Row | None]
) -> list[Any]:
    if isinstance(compiled, Filter):
        found = compiled.find_matches(rows, env, headers)
        return [index in found for index in range(len(rows))]
    return list(compiled.compute_values(rows, env, headers, before))


def refused(case: dict[str, Any], call: Callable[[], object]) -> None:
    """The error that a case expects, in the column that it names."""
    with pytest.raises(SowError) as caught:
        call()
    if "column" in case["expect"]:
        assert isinstance(caught.value, ExpressionError)
        assert caught.value.column == case["expect"]["column"]


def agrees(expected: Any, actual: Any, tolerance: float = 0.0) -> bool:
    if isinstance(actual, Number):
        actual = actual.value
    if isinstance(actual, bytes):
        actual = actual.decode("utf-8", "replace")
    if expected == {"null": True}:
        return actual is None
    if expected == {"nan": True}:
        return isinstance(actual, float) and math.isnan(actual)
    if type(expected) is not type(actual):
        return False
    if isinstance(expected, float) and tolerance:
        return abs(expected - actual) <= tolerance
    return bool(expected == actual)


@pytest.mark.parametrize("case", of_shape("expr"))
def test_value(case: dict[str, Any]) -> None:
    expected = case["expect"]
    if isinstance(expected, dict) and "error" in expected:
        refused(case, lambda: evaluate(case))
        return
    actual = evaluate(case)
    assert agrees(expected, actual, case.get("tol", 0.0)), actual


@pytest.mark.parametrize("case", of_shape("order_by"))
def test_order(case: dict[str, Any]) -> None:
    if isinstance(case["expect"], dict):
        refused(case, lambda: parse_order_by(case["order_by"]))
        return
    keys = parse_order_by(case["order_by"])
    slots = [Slot(key.path, text=key.text) for key in keys]
    rows = rows_of(case["messages"], slots, case.get("type", "json"))
    mixed = [any(is_numeric(row[place]) for row in rows) for place in range(len(keys))]
    order = sorted(range(len(rows)), key=lambda number: (sort_key(rows[number], keys, mixed), number))
    assert order == case["expect"]


@pytest.mark.parametrize("case", of_shape("select"))
def test_select(case: dict[str, Any]) -> None:
    if isinstance(case["expect"], dict) and case["expect"].get("error") is True:
        refused(case, lambda: parse_select(case["select"]))
        return
    wanted = [(include, path.names if path else ()) for include, path in parse_select(case["select"]).directives]
    kind = case.get("type", "json")
    selected = get_type(kind).select_fields(payload_of(case["message"], kind), wanted)
    found = selected.decode() if isinstance(case["expect"], str) else json.loads(get_type(kind).view(selected))
    assert found == case["expect"]


def payload_of(message: str, kind: str) -> bytes:
    """The bytes of a message; those of the typed formats are written as JSON in a case."""
    if kind == "msgpack":
        import msgpack

        return bytes(msgpack.packb(json.loads(message)))
    if kind == "bson":
        import bson

        return bytes(bson.encode(json.loads(message)))
    return message.encode()


def rows_of(messages: list[str], slots: Any, kind: str = "json") -> list[Row]:
    """Rows as the message type makes them; of JSON messages a slow reader must say the same."""
    found, refused = get_type(kind).build_extractor(slots)([payload_of(message, kind) for message in messages])
    if refused:
        raise InputError(refused[0].code, refused[0].message)
    if kind == "json":
        rows = [jsonslots.row(message, slots) for message in messages]
        assert [as_bytes(row) for row in found] == [as_bytes(row) for row in rows]
    return found


def before_of(case: dict[str, Any], slots: Any, kind: str) -> list[Row | None]:
    """The row of the stored record, if the case has one."""
    return list(rows_of([case["previous"]], slots, kind)) if "previous" in case else [None]


def as_bytes(row: Row) -> list[Any]:
    """A row in which equal values look alike: texts as bytes, numbers by value and text, NaN and -0.0 by name."""

    def one(value: Any) -> Any:
        if isinstance(value, ValueList):
            return "list", [one(item) for item in value.items], value.dropped
        if isinstance(value, Number):
            return (
                one(value.value)
                if isinstance(value.value, int) and to_text(value.value) == value.text
                else (repr(value.value), value.text)
            )
        return to_text(value) if isinstance(value, str | bytes) else repr(value)

    return [one(value) for value in row]


def alike(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[name], b[name], tolerance) for name in a)
    if isinstance(a, float) and isinstance(b, float) and tolerance:
        return abs(a - b) <= tolerance
    return type(a) is type(b) and bool(a == b)


def projected(case: dict[str, Any]) -> list[dict[str, Any]]:
    environment = environment_of(case)
    kind = case.get("type", "json")
    if "joins" in case and "filter" in case:
        raise UsageError("SOW-CFG-000", "a view with a join has no filter: the configuration's own rule")
    sources = [topic_of(source) for join in case.get("joins", ()) for source in map(find_source, parse_join(join))]
    program = compile_projection(case["projection"], case.get("grouping", ""), joined="joins" in case, sources=sources)
    if "joins" in case:
        rows = list(joined_rows(case, program))
    else:
        messages = case["messages"]
        if "filter" in case:
            wanted = compile_filter(case["filter"], Context.VIEW_FILTER)
            rows = rows_of(messages, wanted.slots, kind)
            kept = agreed(wanted, rows, environment, [NO_HEADER] * len(rows))
            messages = [message for message, matches in zip(messages, kept, strict=True) if matches]
        rows = rows_of(messages, program.slots, kind)
        for value in parts_of(case):
            agreed(value, rows_of(messages, value.slots, kind), environment, [NO_HEADER] * len(messages))
    found = []
    for values in project(program, rows, environment):
        made = get_type(kind).build_message(list(zip(program.destinations, values, strict=True)))
        found.append(json.loads(get_type(kind).view(made)))
    return found


def parts_of(case: dict[str, Any]) -> Iterator[CompiledValue]:
    """The grouping fields and the inputs of the aggregates."""
    for field in parse_grouping(case["grouping"]):
        yield compile_node(field, case["grouping"], Context.AGGREGATE)
    for definition in parse_projection(case["projection"]):
        for node in walk_tree(definition.expression):
            if isinstance(node, n.Call) and node.name in AGGREGATES:
                yield compile_node(node.arguments[0], case["projection"], Context.AGGREGATE)


def topic_of(source: tuple[str | None, str]) -> tuple[str, ...]:
    """A source as qualifiers name it."""
    return tuple(name for name in source if name is not None)


def joined_rows(case: dict[str, Any], program: Projection) -> Iterator[Any]:
    joins = [parse_join(text) for text in case["joins"]]
    kinds = case.get("types", {})
    records = {find_source(side): case["topics"].get(side.topic, []) for join in joins for side in join}

    def kind_of(topic: str) -> str:
        return str(kinds.get(topic, case.get("type", "json")))

    def key(side: JoinSide, message: str | None) -> bytes | None:
        return (
            None
            if message is None
            else to_text(rows_of([message], [Slot(side.path, text=True)], kind_of(side.topic))[0][0])
        )

    for row in left_join(joins, records, key, case.get("join_null_equivalency", False)):
        whole = {topic: message for (_, topic), message in row.items()}
        yield tuple(
            (ValueList(()) if slot.listed else None)
            if whole[source[-1]] is None
            else rows_of([whole[source[-1]]], [slot], kind_of(source[-1]))[0][0]
            for slot, source in zip(program.slots, program.sources, strict=True)
        )


@pytest.mark.parametrize("case", of_shape("projection"))
def test_projection(case: dict[str, Any]) -> None:
    if isinstance(case["expect"], dict):
        refused(case, lambda: projected(case))
        return
    found = projected(case)
    assert len(found) == len(case["expect"])
    for row in case["expect"]:
        assert any(alike(row, other, case.get("tol", 0.0)) for other in found), found


def constructed(case: dict[str, Any]) -> Any:
    kind = case.get("type", "json")
    context = CONTEXTS[case["context"]]
    program = compile_fields(case["fields"], context)
    header = [header_of(case.get("header", {}))]
    env = environment_of(case)
    for text in case["fields"]:
        value = compile_node(parse_field(text).expression, text, context)
        stored = before_of(case, value.previous_slots, kind)
        agreed(value, rows_of([case["message"]], value.slots, kind), env, header, stored)
    rows = rows_of([case["message"]], program.slots, kind)
    before = before_of(case, program.previous_slots, kind)
    writes = program.compute_writes(rows, env, header, before)[0]
    made = get_type(kind).assign_fields(payload_of(case["message"], kind), writes)
    return made.decode() if isinstance(case["expect"], str) else json.loads(get_type(kind).view(made))


@pytest.mark.parametrize("case", of_shape("fields"))
def test_fields(case: dict[str, Any]) -> None:
    if isinstance(case["expect"], dict) and case["expect"].get("error") is True:
        refused(case, lambda: constructed(case))
        return
    assert alike(case["expect"], constructed(case), case.get("tol", 0.0))

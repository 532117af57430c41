"""Every conformance case runs through the row evaluator; more files may be named in SOWCTL_CONFORMANCE."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sowctl.expressions.compile import compile_filter, compile_value
from sowctl.expressions.construct import compile_fields
from sowctl.expressions.context import Context
from sowctl.expressions.environment import Environment, Header
from sowctl.expressions.errors import ExpressionError
from sowctl.expressions.joining import left_join
from sowctl.expressions.joins import JoinSide
from sowctl.expressions.parse import parse_join, parse_order_by, parse_select
from sowctl.expressions.projection import Projection, compile_projection
from sowctl.values.compare import text_of
from sowctl.values.fields import Number, Slot
from sowctl.values.order import has_number, sort_key
from tests.support import jsonslots

HERE = Path(__file__).parent
COME_WITH_THEIR_MESSAGE_TYPE = {"xml", "bson", "msgpack", "bflat", "protobuf"}
"""Payload formats that tests/messages runs, because reading them is the message type's own work."""

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
}


def cases() -> Iterator[dict[str, Any]]:
    files = [
        HERE / "conformance.jsonl",
        *map(Path, filter(None, os.environ.get("SOWCTL_CONFORMANCE", "").split(os.pathsep))),
    ]
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def shape(case: dict[str, Any]) -> str:
    for name in ("fields", "projection", "order_by", "select"):
        if name in case:
            return name
    return "expr"


def of_shape(*shapes: str) -> list[Any]:
    return [
        pytest.param(case, id=case["id"])
        for case in cases()
        if shape(case) in shapes and case.get("type", "json") not in COME_WITH_THEIR_MESSAGE_TYPE
    ]


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
    context = CONTEXTS[case.get("context", "filter")]
    message = case.get("message", "{}" if case.get("type", "json") == "json" else "")
    header = header_of({"message_size": len(message.encode()), **case.get("header", {})})
    kind = case.get("type", "json")
    if case.get("context", "").startswith(("filter", "barrier")):
        wanted = compile_filter(case["expr"], context)
        rows = [jsonslots.row(message, wanted.slots, kind)]
        return wanted.matches(rows, environment_of(case), [header]) == [0]
    value = compile_value(case["expr"], context)
    rows = [jsonslots.row(message, value.slots, kind)]
    before = [jsonslots.row(case["previous"], value.previous_slots, kind) if "previous" in case else None]
    return value.values(rows, environment_of(case), [header], before)[0]


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
        with pytest.raises(ExpressionError) as caught:
            evaluate(case)
        if "column" in expected:
            assert caught.value.column == expected["column"]
        return
    actual = evaluate(case)
    assert agrees(expected, actual, case.get("tol", 0.0)), actual


@pytest.mark.parametrize("case", of_shape("order_by"))
def test_order(case: dict[str, Any]) -> None:
    if isinstance(case["expect"], dict):
        with pytest.raises(ExpressionError):
            parse_order_by(case["order_by"])
        return
    keys = parse_order_by(case["order_by"])
    slots = [Slot(key.path, text=key.text) for key in keys]
    rows = [jsonslots.row(message, slots) for message in case["messages"]]
    mixed = [any(has_number(row[place]) for row in rows) for place in range(len(keys))]
    order = sorted(range(len(rows)), key=lambda number: (sort_key(rows[number], keys, mixed), number))
    assert order == case["expect"]


@pytest.mark.parametrize("case", of_shape("select"))
def test_select(case: dict[str, Any]) -> None:
    if case["expect"] == {"error": True}:
        with pytest.raises(ExpressionError):
            parse_select(case["select"])
        return
    wanted = parse_select(case["select"])

    def kept(node: Any, names: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            items = [kept(item, names) for item in node]
            return [item for item in items if item is not None] or None
        if isinstance(node, dict) and node:
            members = {name: kept(value, (*names, name)) for name, value in node.items()}
            return {name: value for name, value in members.items() if value is not None} or None
        return [node] if wanted.included(names) else None

    def unwrapped(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: unwrapped(value) for name, value in node.items()}
        if isinstance(node, list) and len(node) == 1 and not isinstance(node[0], dict | list):
            return node[0]
        return [unwrapped(item) for item in node] if isinstance(node, list) else node

    assert unwrapped(kept(json.loads(case["message"]), ()) or {}) == case["expect"]


def rows_of(messages: list[str], slots: Any, kind: str = "json") -> list[Any]:
    return [jsonslots.row(message, slots, kind) for message in messages]


def written(value: Any) -> Any:
    """A result as a JSON value."""
    if isinstance(value, Number):
        value = value.value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return None if isinstance(value, float) and not math.isfinite(value) else value


def put(tree: dict[str, Any], names: tuple[str, ...], value: Any) -> None:
    for name in names[:-1]:
        if not isinstance(tree.get(name), dict):
            tree[name] = {}
        tree = tree[name]
    tree[names[-1]] = value


def alike(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[name], b[name], tolerance) for name in a)
    if isinstance(a, float) and isinstance(b, float) and tolerance:
        return abs(a - b) <= tolerance
    return type(a) is type(b) and bool(a == b)


def projected(case: dict[str, Any]) -> list[dict[str, Any]]:
    environment = environment_of(case)
    kind = case.get("type", "json")
    program = compile_projection(case["projection"], case.get("grouping", ""), joined="joins" in case)
    if "joins" in case:
        rows = list(joined_rows(case, program))
    else:
        messages = case["messages"]
        if "filter" in case:
            wanted = compile_filter(case["filter"], Context.VIEW_FILTER)
            kept = wanted.matches(rows_of(messages, wanted.slots, kind), environment)
            messages = [messages[index] for index in kept]
        rows = rows_of(messages, program.slots, kind)
    found = []
    for values in program.project(rows, environment):
        tree: dict[str, Any] = {}
        for names, value in zip(program.destinations, values, strict=True):
            put(tree, names, written(value))
        found.append(tree)
    return found


def joined_rows(case: dict[str, Any], program: Projection) -> Iterator[Any]:
    records = {(None, topic): messages for topic, messages in case["topics"].items()}

    def key(side: JoinSide, message: str | None) -> bytes | None:
        return None if message is None else text_of(jsonslots.row(message, [Slot(side.path, text=True)])[0])

    joins = [parse_join(text) for text in case["joins"]]
    for row in left_join(joins, records, key, case.get("join_null_equivalency", False)):
        whole = {topic: message or "{}" for (_, topic), message in row.items()}
        yield tuple(
            jsonslots.row(whole[source[-1]], [slot])[0]
            for slot, source in zip(program.slots, program.sources, strict=True)
        )


@pytest.mark.parametrize("case", of_shape("projection"))
def test_projection(case: dict[str, Any]) -> None:
    if case["expect"] == {"error": True}:
        with pytest.raises(ExpressionError):
            projected(case)
        return
    found = projected(case)
    assert len(found) == len(case["expect"])
    for row in case["expect"]:
        assert any(alike(row, other, case.get("tol", 0.0)) for other in found), found


def constructed(case: dict[str, Any]) -> dict[str, Any]:
    program = compile_fields(case["fields"], CONTEXTS[case["context"]])
    rows = [jsonslots.row(case["message"], program.slots)]
    before = [jsonslots.row(case["previous"], program.previous_slots) if "previous" in case else None]
    header = [header_of(case.get("header", {}))]
    tree: dict[str, Any] = json.loads(case["message"])
    for write in program.writes(rows, environment_of(case), header, before)[0]:
        if write.remove:
            tree.pop(write.destination.names[0], None)
        else:
            put(tree, write.destination.names, written(write.value))
    return tree


@pytest.mark.parametrize("case", of_shape("fields"))
def test_fields(case: dict[str, Any]) -> None:
    if case["expect"] == {"error": True}:
        with pytest.raises(ExpressionError):
            constructed(case)
        return
    assert alike(case["expect"], constructed(case), case.get("tol", 0.0))

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
from sowctl.expressions.context import Context
from sowctl.expressions.environment import Environment, Header
from sowctl.expressions.errors import ExpressionError
from sowctl.expressions.parse import parse_order_by, parse_select
from sowctl.values.fields import Number
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
    from sowctl.values.fields import Slot

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

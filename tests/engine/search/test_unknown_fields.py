"""Fields of a query that occur in no record: reported with a similar name, or rejected on request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.options import QueryOptions
from sowctl.engine.search import unknown_fields
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.unknown_fields import UNKNOWN_FIELD_WORDS, find_nearest_field, find_unknown_fields
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.query import start_query
from sowctl.errors import UsageError
from sowctl.messages.types import get_type
from sowctl.store.codec import encode_record
from sowctl.values.differences import parse_view
from sowctl.values.paths import Path, parse_path
from sowctl.values.rawmembers import LONG_OBJECT_LIMITS, LongObject, open_long_object
from tests.engine.conftest import MakeLab
from tests.support.instances import START, Lab, config_xml, message, topic_xml

VIEW = (
    "<View><Name>v</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic><Projection>"
    "<Field>/id AS /id</Field></Projection><Grouping><Field>/id</Field></Grouping></View>"
)


def told(lab: Lab, *topic_names: str, stop: bool = False, **options: Any) -> list[str]:
    """Return the notes of a query: topics, field and suggestion; ``stop``: only the first batch is read."""
    lab.notes.clear()
    instance = lab.open()
    targets = [target for topic in topic_names for target in resolve_targets(instance, topic, derived=True)]
    result = start_query(instance, targets, QueryOptions(unknown="note", **options))
    if stop:
        next(iter(result))
        result.close()
    else:
        list(result)
    return list(map(read_note, lab.notes))


def read_note(note: str) -> str:
    """Return ``topics: field -> suggestion`` of a note on a field that occurs in no record."""
    records, found, rest = note.partition(f" {UNKNOWN_FIELD_WORDS} ")
    field, _, meant = rest.partition("; did you mean ")
    assert found, note
    return f"{records.rpartition(' of ')[2]}: {field}" + (f" -> {meant.removesuffix('?')}" if meant else "")


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    lab = make_lab(config_xml(topic_xml("t") + topic_xml("u") + topic_xml("empty") + VIEW, ("t", "u", "empty")))
    lab.publish("t", message(id=1, status="new", address={"city": "Rome"}, legs=[{"qty": 1}]), message(id=2, note=None))
    lab.publish("u", message(id=1, other=1))
    return lab


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"filter": "/statsu = 'new'"}, "t: /statsu -> /status"),
        ({"filter": "/Status = 'new'"}, "t: /Status -> /status"),
        ({"filter": "/city = 'Rome'"}, "t: /city -> /address/city"),
        ({"filter": "/ctiy = 'Rome'"}, "t: /ctiy -> /address/city"),
        ({"filter": "/id = 1 OR /xyzzy = 1"}, "t: /xyzzy"),
        ({"order_by": "/stauts"}, "t: /stauts -> /status"),
        ({"select": "-/,+/statu"}, "t: /statu -> /status"),
        ({"shown": ("/legs/qyt",)}, "t: /legs/qyt -> /legs/qty"),
        ({"projection": "SUM(/idd) AS /s", "grouping": ""}, "t: /idd -> /id"),
        ({"filter": "/legs[1]/qty = 1"}, "t: /legs[1]/qty -> /legs/qty"),
    ],
)
def test_a_slip_is_told_with_what_was_meant(lab: Lab, options: dict[str, Any], words: str) -> None:
    assert told(lab, "t", **options) == [words]
    with pytest.raises(UsageError) as refused:
        start_query(lab.open(), resolve_targets(lab.open(), "t"), QueryOptions(unknown="error", **options))
    assert refused.value.code == "SOW-QRY-024" and words.startswith(read_note(refused.value.message))


@pytest.mark.parametrize(
    "options",
    [
        {"filter": "/status = 'none'"},
        {"filter": "/note IS NULL AND /address/city = 'x' AND /legs/qty = 1 AND /legs[0]/qty = 7"},
        {"order_by": "/status, /id"},
        {"select": "-/address"},
        {"projection": "SUM(/id) AS /s", "grouping": "/status", "order_by": "/s"},
        {"filter": "SOW_KEY() = '1'"},
        {},
    ],
)
def test_fields_that_are_there_are_not(lab: Lab, options: dict[str, Any]) -> None:
    assert told(lab, "t", **options) == []
    list(start_query(lab.open(), resolve_targets(lab.open(), "t"), QueryOptions(unknown="error", **options)))


def test_a_field_of_one_topic_is_known_of_several(lab: Lab) -> None:
    assert told(lab, "t", "u", "empty", filter="/other = 2 AND /status = 'x'") == []
    assert told(lab, "t", "u", filter="/xyzzy = 2") == ["t, u: /xyzzy"]


def test_nothing_is_told_of_topics_without_records_and_views_are_as_topics(lab: Lab) -> None:
    lab.publish("empty", message(id=1))
    lab.open().topic("empty").delete(filter="/id = 1")
    assert told(lab, "empty", filter="/x = 1") == []
    assert told(lab, "v", filter="/x = 1") == ["v: /x"]
    lab.clock.tick(10)
    lab.publish("t", message(id=7))
    assert told(lab, "v", filter="/x = 1", at=START) == ["v: /x"]


def test_a_result_that_is_taken_in_part_is_looked_at_too(lab: Lab) -> None:
    options = {"select": "-/,+/idd", "top_n": 1, "counted": False}
    assert told(lab, "t", stop=True, **options) == ["t: /idd -> /id"]
    assert told(lab, "t", top_n=1, counted=False, order_by="/idd") != []


def test_of_a_large_store_it_says_how_many_records_were_looked_at(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "unknown_field_first_records", 2)
    monkeypatch.setattr(QUERY_LIMITS, "unknown_field_max_decoded_records", 5)
    monkeypatch.setattr(QUERY_LIMITS, "unknown_field_max_records", 10)
    lab.publish("t", *(message(id=number, **({"rare": 1} if number == 40 else {})) for number in range(100)))
    assert told(lab, "t", filter="/nosuch = 1") == ["t: /nosuch"]
    assert " 12 " in lab.notes[0]
    # Records found by the filter may have the field, beyond the sampled records.
    assert told(lab, "t", filter="/rare = 1") == []
    with pytest.raises(UsageError, match="/nosuch") as refused:
        start_query(lab.open(), resolve_targets(lab.open(), "t"), QueryOptions(unknown="error", filter="/nosuch = 1"))
    assert refused.value.code == "SOW-QRY-024"
    assert (
        list(
            start_query(lab.open(), resolve_targets(lab.open(), "t"), QueryOptions(unknown="error", filter="/rare = 2"))
        )
        == []
    )


class _Records:
    """A source of given messages."""

    def __init__(self, messages: list[bytes]) -> None:
        keys = [number.to_bytes(8, "big") for number in range(len(messages))]
        values = [encode_record(key, bytes(8), 1, 1, 0, 0, one) for key, one in zip(keys, messages, strict=True)]
        self._pairs = list(zip(keys, values, strict=True))

    def read_part(self, size: int, start: bytes | None = None) -> Any:
        chosen = [pair for pair in self._pairs if start is None or pair[0] >= start]
        for at in range(0, len(chosen), size):
            part = chosen[at : at + size]
            yield [key for key, _ in part], [value for _, value in part]


_TREES = st.recursive(
    st.one_of(st.none(), st.integers(0, 1), st.sampled_from(["a", '"b"'])),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abé"), inner, max_size=2)),
    max_leaves=6,
)
_PATHS = st.lists(st.tuples(st.sampled_from("abé"), st.sampled_from(["", "[0]", "[1]"])), min_size=1, max_size=3)


def _has(tree: Any, steps: list[tuple[str, int | None]]) -> bool:
    if not steps:
        return True
    if isinstance(tree, list):
        return any(_has(item, steps) for item in tree)
    name, index = steps[0]
    if not isinstance(tree, dict) or name not in tree:
        return False
    value = tree[name]
    if index is not None:
        items = value if isinstance(value, list) else [value]
        if index >= len(items):
            return False
        value = items[index]
    return _has(value, steps[1:])


@given(
    st.lists(st.tuples(st.dictionaries(st.sampled_from("abé"), _TREES, max_size=3), st.booleans()), max_size=6), _PATHS
)
def test_the_search_of_bytes_finds_what_is_there(
    messages: list[tuple[Any, bool]], steps: list[tuple[str, str]]
) -> None:
    # Some with escapes, which spell names differently.
    records = [json.dumps(tree, ensure_ascii=pure).encode() for tree, pure in messages]
    path = parse_path("".join(f"/{name}{index}" for name, index in steps))
    there = any(_has(tree, [(step.name, step.index) for step in path.steps]) for tree, _ in messages)
    found = find_unknown_fields(_Records(records), get_type("json"), [path])  # type: ignore[arg-type]
    assert found is None if there else found is not None and found.paths == (frozenset([path] if records else []))


def test_fields_of_other_types_are_read_by_their_types() -> None:
    source, kind = _Records([b"11=1\x0138=5\x01"]), get_type("fix")
    assert find_unknown_fields(source, kind, [parse_path("/38")]) is None  # type: ignore[arg-type]
    found = find_unknown_fields(source, kind, [parse_path("/381")])  # type: ignore[arg-type]
    assert found is not None and found.paths == {parse_path("/381")} and found.near == {parse_path("/381"): "/38"}
    assert find_unknown_fields(source, get_type("binary"), [parse_path("/381")]) is None  # type: ignore[arg-type]


def test_a_name_is_near_in_another_case_elsewhere_or_by_its_letters() -> None:
    known = [("id",), ("customer",), ("customer", "name"), ("lines", "sku")]

    def near(text: str) -> str | None:
        return find_nearest_field(parse_path(text), known)

    assert (near("/ID"), near("/Customer/Name"), near("/name"), near("/custmer/name"), near("/sk")) == (
        "/id",
        "/customer/name",
        "/customer/name",
        "/customer/name",
        "/lines/sku",
    )
    assert near("/zzz") is None and find_nearest_field(Path(parse_path("/x").steps), []) is None


def test_a_long_message_is_looked_at_some_members_at_a_time(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = make_lab(config_xml(topic_xml("t"), ("t",)))
    filler = {f"f{number}": "y" * 60 for number in range(16_000)}
    lab.publish("t", message(id=1, legs=[{"qty": 1}], **filler, last={"at": 5}), message(id=2, near=1))
    monkeypatch.setattr(
        unknown_fields,
        "_parse_message",
        lambda text: parse_view(text) if len(text) < 1000 else pytest.fail("all of it"),
    )
    for path in ("/last/at", "/legs/qty", "/legs[0]/qty", "/f15999", "/near"):
        assert told(lab, "t", order_by=path) == []
    assert told(lab, "t", order_by="/last/xyzzy") == ["t: /last/xyzzy"]
    assert told(lab, "t", order_by="/legs[1]/qty") == ["t: /legs[1]/qty"]
    # It is read once for all fields: a pass takes most of a second per million members.
    read: list[int] = []

    def counted(text: bytes) -> LongObject | None:
        read.append(len(text))
        return open_long_object(text)

    monkeypatch.setattr(unknown_fields, "open_long_object", counted)
    assert told(lab, "t", filter="/last/at = 5 OR /legs/qty = 1 OR /f15999 = 'y' OR /f7/x = 1") == ["t: /f7/x"]
    assert [size > LONG_OBJECT_LIMITS.min_object_bytes for size in read].count(True) == 1
    assert told(lab, "t", order_by="/naer") == ["t: /naer -> /near"]

"""Arguments that the Python API accepts, and those that it rejects with a TypeError."""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sowctl
from sowctl.engine.api import InstanceHandle, TopicHandle
from sowctl.engine.api.arguments import At, build_encoder
from sowctl.engine.options import PublishOptions
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.errors import SowError, UsageError
from sowctl.messages.native_values import build_message
from sowctl.messages.types import get_type
from sowctl.values.differences import MISSING
from tests.support.examples import examples
from tests.support.instances import SECOND, START, Lab, message


@pytest.fixture
def topic(lab: Lab) -> TopicHandle:
    """A topic with the records 1018 and 7; 7 was written a second later."""
    lab.publish("t", message(id=1018, v=1))
    lab.clock.at = START + SECOND
    lab.publish("t", message(id=7, v=2))
    return lab.open().topic("t")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: t.delete(sow_keys="1018"), r"sow_keys .* not str: delete\(sow_keys=\[key\]\)"),
        (lambda t: t.delete(sow_keys=[b"1018"]), "each of sow_keys .* not bytes"),
        (lambda t: t.delete(sow_keys=[None]), "not NoneType"),
        (lambda t: t.delete(sow_keys=1018), "not int"),
        (lambda t: t.delete(data=b'{"id":7}'), r"messages .* list, not bytes: delete\(data=\[message\]\)"),
        (lambda t: t.delete(data=[7]), "bytes, str or dict, not int"),
        (lambda t: t.publish({"id": 7}), r"messages .* list, not dict: publish\(\[message\]\)"),
        (lambda t: t.publish([{"id": {1, 2}}]), "a field of a message cannot be of type set"),
        (lambda t: t.publish([b"{}"], linger=[]), "linger .* timedelta.* not list"),
        (lambda t: t.get(10.18), "each of keys .* not float"),
        (lambda t: t.versions(True), "each of keys .* not bool"),
        (lambda t: t.query(sow_keys="7"), r"not str: query\(sow_keys=\[key\]\)"),
        (lambda t: t.diff(at="-1h", fields="/v"), r"not str: diff\(fields=\[path\]\)"),
        (lambda t: t.diff(at="-1h", keys=7), "keys .* list, not int"),
        (lambda t: t.blame(1.5), "each of keys .* not float"),
        (lambda t: t.query(at=1.5), "at .* datetime, microseconds since 1970 .* not float"),
        (lambda t: t.get("7", at=True), "at .* datetime, microseconds since 1970 .* not bool"),
        (lambda t: t.digest(at=b"NOW"), "at .* datetime, microseconds since 1970 .* not bytes"),
    ],
)
def test_what_is_of_a_wrong_type_is_refused_before_anything_is_done(call: Any, words: str, topic: TopicHandle) -> None:
    with pytest.raises(TypeError, match=words):
        call(topic)
    assert topic.query().count() == 2


EIGHT = datetime(2026, 1, 5, 8)


@pytest.mark.parametrize(
    "at",
    [
        START,
        "2026-01-05T08:00:00Z",
        "1",
        EIGHT,
        EIGHT.replace(tzinfo=UTC),
        EIGHT.replace(hour=10, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_an_instant_is_a_datetime_a_number_or_a_text_as_the_command_line_takes_it(
    at: At, topic: TopicHandle, tmp_path: Path
) -> None:
    assert [record.payload for record in topic.query(at=at).records()] == [b'{"id":1018,"v":1}']
    assert [record.payload for record in topic.get("1018", "7", fields=True, at=at)] == [b'{"id":1018,"v":1}']
    assert topic.digest(at) == topic.digest(START)
    assert topic.snapshot(tmp_path / "then.sow", at=at).records == 1


def test_a_text_that_is_no_instant_is_refused_as_on_the_command_line(topic: TopicHandle) -> None:
    with pytest.raises(sowctl.SowError) as caught:
        topic.get("7", at="someday")
    assert caught.value.code == "SOW-VAL-010"


def test_keys_and_messages_may_be_any_collection(topic: TopicHandle) -> None:
    """The SOW key of a record is an int; an int is also accepted as the text of a key."""
    key = next(iter(topic.get(7))).sow_key
    assert isinstance(key, int)
    assert next(iter(topic.get(key))).payload == b'{"id":7,"v":2}'
    assert len(list(topic.query(sow_keys={key}).records())) == 1
    assert topic.delete(sow_keys={key: None}).deleted == 1
    assert topic.delete(data=iter([b'{"id":1018}', b'{"id":9}'])).deleted == 1


def test_keys_are_values_of_the_key_field(topic: TopicHandle) -> None:
    assert [one["id"] for one in topic.query(keys=[7, "5"]).to_dicts()] == [7]
    assert (topic.count(keys=["7"]), topic.count(sow_keys=["7"])) == (1, 0)
    with topic.subscribe(keys=[7], until_now=True) as events:
        assert [event.data for event in events if event.data] == [b'{"id":7,"v":2}']
    assert topic.delete(keys=[7]).deleted == 1


def test_methods_of_other_verbs(topic: TopicHandle) -> None:
    assert list(topic.check()) == []
    assert list(InstanceHandle.check(topic.instance)) == []  # type: ignore[arg-type]
    assert topic.reindex().records == 2
    assert topic.compact().records == 2
    assert topic.repair().report.action == "sound"
    assert topic.explain("/v = 2").estimated <= 2


def test_differences(topic: TopicHandle, lab: Lab) -> None:
    lab.clock.at = START + 2 * SECOND
    topic.publish([{"id": 7, "v": 3, "n": {"x": 1}}, {"id": 9}], client="me", sequence=1)
    topic.delete(filter="/id = 1018")
    with topic.diff(at=datetime.fromtimestamp((START + SECOND) / SECOND, UTC)) as found:
        assert "t@" in repr(found)
        changes = {(change.kind, change.key): [(one.name, one.before) for one in change.fields] for change in found}
    assert {kind: fields for (kind, _), fields in changes.items()} == {
        "changed": [("/v", 2), ("/n", MISSING)],
        "added": [],
        "removed": [],
    }
    assert (found.counts.changed, found.counts.added, found.counts.removed) == (1, 1, 1)
    both = START + SECOND, START
    assert [change.kind for change in topic.diff(at=both[0], other_at=both[1])] == ["removed"]
    assert list(topic.diff(at=both[0], keys=["7"], fields=["/other"])) == []
    assert list(topic.diff(filter="/id = 12345", at=both[0])) == []
    with lab.open() as again, pytest.raises(sowctl.UsageError) as raised:
        again.topic("t").diff()
    assert raised.value.code == "SOW-DIF-005"


def test_who_set_a_field(topic: TopicHandle, lab: Lab) -> None:
    lab.clock.at = START + 2 * SECOND
    topic.publish([{"id": 7, "v": 3}], client="me", sequence=1)
    known, gone = topic.blame("7", 12345)
    assert [(one.name, one.value, one.version.timestamp, one.version.client) for one in known.fields] == [
        ("/id", 7, START + SECOND, None),
        ("/v", 3, START + 2 * SECOND, "me"),
    ]
    assert (gone.fields, gone.last) == ([], None)
    assert [one.value for one in topic.blame("7", at=START + SECOND)[0].fields] == [7, 2]


def test_messages_are_bytes_texts_and_dicts(lab: Lab) -> None:
    topic = lab.open().topic("t")
    when = datetime(2026, 1, 5, 8, 30)
    rows: list[Any] = [
        b'{"id":1}',
        memoryview(b'{"id":2}'),
        '{"id":3,"v":"\u00e4"}',
        {"id": 4, "v": [1, 2.5, None, True], "n": {"at": when, "d": Decimal("0.10")}, "b": b"\x00"},
        {"id": 6, "v": float("inf"), "n": 1 << 70},
        {"id": numpy.int64(5), "v": numpy.float64("nan"), "u": UUID(int=7)},
    ]
    assert topic.publish(rows).inserted == 6
    assert [record.payload.decode() for record in topic.query(order_by="/id").records()] == [
        '{"id":1}',
        '{"id":2}',
        '{"id":3,"v":"\u00e4"}',
        '{"id":4,"v":[1,2.5,null,true],"n":{"at":"2026-01-05T08:30:00.000000Z","d":0.10},"b":"AA=="}',
        '{"id":5,"v":null,"u":"00000000-0000-0000-0000-000000000007"}',
        '{"id":6,"v":null,"n":1180591620717411303424}',
    ]
    assert topic.delete(data=[{"id": 4}, '{"id":5}']).deleted == 2


_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(string.printable, max_size=5)


@settings(max_examples=examples(100))
@given(st.dictionaries(st.text(string.ascii_letters, min_size=1, max_size=3), _VALUES, max_size=4))
def test_plain_fields_are_written_at_once_as_all_others_are(fields: dict[str, Any]) -> None:
    """The fast path for plain values writes the same bytes as the general path, which a list selects."""
    kind = get_type("json")
    quick, slow = build_message(fields, kind), build_message({**fields, "list": []}, kind)
    assert slow == (quick[:-1] + b"," if fields else b"{") + b'"list":[]}'


@pytest.mark.parametrize(
    ("kind", "message", "payload"),
    [
        ("msgpack", {"id": 1, "v": {"w": [b"\x01"]}}, b"\x82\xa2id\x01\xa1v\x81\xa1w\x91\xc4\x01\x01"),
        ("fix", {"1": "A", "38": 5}, b"1=A\x0138=5\x01"),
        ("nvfix", {"id": "A", "v": Decimal("1.50")}, b"id=A\x01v=1.50\x01"),
        ("xml", {"order": {"id": 1, "v": None}}, b"<order><id>1</id><v/></order>"),
    ],
)
def test_a_dict_becomes_a_message_of_the_type(kind: str, message: dict[str, Any], payload: bytes) -> None:
    assert build_encoder(get_type(kind))(message) == payload


def test_a_dict_is_no_message_of_types_without_fields_to_write() -> None:
    with pytest.raises(TypeError, match=r"type binary .* dict"):
        build_encoder(get_type("binary"))({"id": 1})
    with pytest.raises(sowctl.InputError, match=r"\b55\b.*\bfix\b") as caught:
        build_encoder(get_type("fix"))({"55": [[1]]})
    assert caught.value.code == "SOW-MSG-009"


def test_a_list_of_a_dict_is_repeated_fields() -> None:
    encode = build_encoder(get_type("nvfix"))
    assert encode({"a": 1, "v": ["x", None, 2.0], "w": []}) == b"a=1\x01v=x\x01v=\x01v=2\x01"
    assert build_encoder(get_type("xml"))({"m": {"v": [{"@k": 1, "#text": "t"}, 2]}}) == (
        b'<m><v k="1">t</v><v>2</v></m>'
    )


def test_intervals_are_seconds_timedeltas_or_texts(lab: Lab) -> None:
    topic = lab.open().topic("t")
    for number, lifetime in enumerate([90, 90.0, timedelta(seconds=90), "90s", "1.5m"]):
        topic.publish([{"id": number}], expiration=lifetime, timestamp=EIGHT)
    assert {record.expiration for record in topic.query().records()} == {START + 90 * SECOND}
    with pytest.raises(sowctl.UsageError, match=r"expiration: 'soon'") as caught:
        topic.publish([{"id": 1}], expiration="soon")
    assert caught.value.code == "SOW-CLI-006"


def test_help_names_every_option_of_open() -> None:
    words = set((sowctl.open.__doc__ or "").replace(",", " ").replace("`", " ").replace("(n)", " ").split())
    options = [name for name in inspect.signature(InstanceHandle.open).parameters if name != "config_path"]
    assert [*inspect.signature(sowctl.open).parameters] == ["config", *options]
    assert [name for name in options if name not in words] == []


def test_indexes_follow_a_bulk_load(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a load on the command line, existing indexes are rebuilt before the call returns."""
    monkeypatch.setattr(QUERY_LIMITS, "index_tolerated_changes", 3)
    monkeypatch.setattr(QUERY_LIMITS, "index_min_records", 20)
    topic = lab.open().topic("t")

    def columns() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in lab.directory.rglob("*.memo")}

    def load(count: int, value: int, **words: Any) -> None:
        topic.publish(({"id": number, "n": value} for number in range(count)), **words)

    load(30, 0)
    assert columns() == {}
    for _ in range(2):
        assert topic.query("/n = 0", index_from=0).count() == 30
    first = columns()
    load(30, 5, dry_run=True)
    load(10, 5)
    assert columns() == first and len(first) == 3
    load(30, 6)
    second = columns()
    assert second.keys() == first.keys() and all(second[path] != first[path] for path in first)
    assert topic.query("/n = 6", index_from=0).count() == 30 and columns() == second


def _within_itself() -> dict[str, Any]:
    fields: dict[str, Any] = {"id": 1}
    fields["x"] = fields
    return fields


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda t: t.query(5), TypeError, "filter .* not int"),
        (lambda t: t.explain(7), TypeError, "filter .* not int"),
        (lambda t: t.subscribe(7), TypeError, "filter .* not int"),
        (lambda t: t.delete(filter=5), TypeError, "filter .* not int"),
        (lambda t: t.query(order_by=3), TypeError, "order_by .* not int"),
        (lambda t: t.query(top_n=True), TypeError, "top_n .* int, not bool"),
        (lambda t: t.query(top_n=3.0), TypeError, "top_n .* int, not float"),
        (lambda t: t.query(top_n=-1), sowctl.UsageError, "top_n .* not -1"),
        (lambda t: t.query(jobs=0), sowctl.UsageError, "jobs .* from 1 .* not 0"),
        (lambda t: t.query(sort_memory=0), sowctl.UsageError, "sort_memory .* not 0"),
        (lambda t: t.query(unknown="x"), sowctl.UsageError, "one of ignore, note, error, not 'x'"),
        (lambda t: t.publish([b"{}"], on_error="x"), sowctl.UsageError, "one of stop, skip, abort, not 'x'"),
        (lambda t: t.publish([b"{}"], max_errors=-1), sowctl.UsageError, "max_errors .* not -1"),
        (lambda t: t.publish([b"{}"], expiration=-1), sowctl.UsageError, "expiration .* not -1"),
        (lambda t: t.publish([b"{}"], expiration=float("nan")), sowctl.UsageError, "expiration .* not nan"),
        (lambda t: t.publish([b"{}"], delta=1), TypeError, "delta .* True or False, not int"),
        (lambda t: t.query(where="/v"), TypeError, r"query\(\) has no keyword 'where'; did you mean filter\?"),
        (
            lambda t: t.subscribe(timeout=3),
            TypeError,
            r"has no keyword .timeout.; did you mean lasting\?",
        ),
        (lambda t: t.explain(sort="/v"), TypeError, r"explain\(\) has no keyword 'sort'; did you mean order_by\?"),
        (lambda t: t.diff(ignore=["/v"]), TypeError, r"diff\(\) has no keyword 'ignore'; did you mean ignored\?"),
        (lambda t: t.replay(rebild=True), TypeError, r"replay\(\) has no keyword 'rebild'; did you mean rebuild\?"),
        (lambda t: t.query(top_n=1, limit=1), sowctl.UsageError, "top_n and limit mean the same"),
        (lambda t: t.query(offset=-1), sowctl.UsageError, "offset .* not -1"),
        (lambda t: t.query(shown="/v"), TypeError, r"shown .* list, not str"),
        (lambda t: t.query(order_bye="/v"), TypeError, "did you mean order_by"),
        (lambda t: t.query(strict=True), TypeError, "did you mean unknown='error'"),
        (lambda t: t.publish([b"{}"], batchsize=1), TypeError, "has no keyword 'batchsize'"),
        (lambda t: t.publish([_within_itself()]), sowctl.InputError, "contain themselves"),
        (
            lambda t: t.publish([{"id": 1, "s": {"t": ["a", "b\ud800"]}}]),
            sowctl.InputError,
            r"field /s/t\[1\].*index 1",
        ),
        (lambda t: t.publish([{"id": 1, "s": "\ud800"}]), sowctl.InputError, "field /s .* index 0"),
        (lambda t: t.publish(['{"id":1,"s":"\ud800"}']), sowctl.InputError, "index 13"),
        (lambda t: type(t.instance).open("x.xml", lock_wait="x"), TypeError, "lock_wait .* not str"),
        (lambda t: type(t.instance).open("x.xml", lock_wait=-1), sowctl.UsageError, "lock_wait .* not -1"),
        (lambda t: type(t.instance).open("x.xml", clock=5), TypeError, "clock .* not int"),
    ],
)
def test_a_wrong_keyword_or_value_is_named_before_a_store_is_opened(
    topic: TopicHandle, call: Any, kind: type[Exception], words: str
) -> None:
    before = [one.payload for one in topic.query().records()]
    with pytest.raises(kind, match=words):
        call(topic)
    assert [one.payload for one in topic.query().records()] == before


def test_limit_and_offset_are_top_n_and_skip_n(topic: TopicHandle) -> None:
    assert [one["id"] for one in topic.query(order_by="/id", limit=1).to_dicts()] == [7]
    assert [one["id"] for one in topic.query(order_by="/id", limit=1, offset=1).to_dicts()] == [1018]
    assert topic.explain(order_by="/id", limit=1) == topic.explain(order_by="/id", top_n=1)
    with topic.subscribe(order_by="/id", limit=1, until_now=True) as events:
        assert [event.data for event in events if event.data] == [b'{"id":7,"v":2}']


def test_options_of_publish_and_keywords_are_put_together(topic: TopicHandle) -> None:
    options = PublishOptions(client="c", dry_run=True)
    assert topic.publish([{"id": 5}], options, sequence=1).published == 1
    assert topic.query("/id = 5").count() == 0


def test_whole_numbers_of_numpy_are_counts(topic: TopicHandle) -> None:
    assert topic.query(top_n=numpy.int64(1)).count() == 1


OUTSIDE = (-1, -(2**63), 2**63, 2**64 - 1, 2**64, 10**400)


def _whole_numbers(method: Callable[..., object], *others: str) -> list[str]:
    hints = inspect.get_annotations(method)
    return [*[name for name, hint in hints.items() if hint in ("int", "int | None")], *others]


@pytest.mark.parametrize("number", OUTSIDE)
def test_no_number_ends_in_an_error_without_a_code(lab: Lab, number: int) -> None:
    topic = lab.open().topic("t")
    topic.publish([{"id": 1}])
    calls: list[Callable[[], object]] = [
        *(
            lambda name=name: list(topic.query(**{name: number}).records())
            for name in _whole_numbers(TopicHandle.query, "at", "after_key")
        ),
        *(
            lambda name=name: topic.publish([{"id": 1}], **{"client": "c", name: number})
            for name in _whole_numbers(TopicHandle.publish, "expiration", "linger")
        ),
        lambda: topic.publish([{"id": 1}], client="c"),
        *(
            lambda name=name: topic.replay(dry_run=True, **{name: number})
            for name in _whole_numbers(TopicHandle.replay, "until_time")
        ),
        *(
            lambda name=name: list(topic.subscribe(until_now=True, **{name: number}))
            for name in _whole_numbers(TopicHandle.subscribe, "rate_max_gap", "progress_every")
        ),
        lambda: list(topic.query(sow_keys=[number]).records()),
        lambda: list(topic.get(number)),
        lambda: list(topic.get(1, at=number)),
        lambda: list(topic.versions(number)),
        lambda: topic.blame(1, at=number),
        lambda: topic.digest(number),
        lambda: topic.delete(sow_keys=[number]),
        lambda: topic.publish([{"id": 1}], expiration=timedelta.max),
    ]
    for call in calls:
        # An OverflowError or a plain ValueError would fail the test.
        with suppress(SowError):
            call()


def test_a_time_as_a_number_is_refused_by_type(topic: TopicHandle) -> None:
    with pytest.raises(TypeError, match="not int"):
        topic.publish([{"id": 1}], timestamp=1767600000000000)  # type: ignore[arg-type]


def test_messages_are_compared_with_a_topic_and_replace_it(lab: Lab) -> None:
    lab.publish("t", message(id=1, v=1), message(id=2), message(id=3))
    topic = lab.open().topic("t")
    golden = [{"id": 1, "v": 2}, {"id": 3}, {"id": 4}]
    with topic.diff(golden) as differences:
        assert {(change.kind, change.key) for change in differences} == {
            ("changed", "1"), ("removed", "2"), ("added", "4")
        }  # fmt: skip
    assert differences.counts.equal == 1
    planned = topic.publish(golden, replace_all=True, dry_run=True).first_changes
    assert {(one.change, one.key) for one in planned} == {("updated", "1"), ("deleted", "2"), ("inserted", "4")}
    assert topic.publish(golden, replace_all=True).published == 3
    with topic.diff(golden) as differences:
        assert list(differences) == []
    with pytest.raises(UsageError):
        topic.diff(golden, other_at="-1h")

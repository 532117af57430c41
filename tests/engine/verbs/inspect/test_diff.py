"""Comparison of two states: it finds every difference, and its envelopes transform one into the other."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.engine.options import DiffOptions, PublishOptions
from sowctl.engine.sources.digest import compute_digest
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.inspect.diff import DiffCounts, DiffSide, RecordChange, compare_sides
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.views.openers import open_target
from sowctl.errors import MissingError, UsageError
from sowctl.messages.framing.frames import FrameReader
from sowctl.output.differences.records import encode_envelope
from sowctl.store.limits import STORE_LIMITS
from sowctl.values.differences import format_path
from tests.support.examples import examples
from tests.support.instances import START, Lab, config_xml, message, topic_xml, verified

PATTERN = topic_xml("many", "<Pattern>^many-</Pattern>")
NAMES = ("t", "past", "alone", "own", "quotes")
XML = config_xml(
    topic_xml("t")
    + topic_xml("past", "<History><Window>1h</Window><Granularity>0s</Granularity></History>")
    + topic_xml("alone")
    + topic_xml("own", key=None)
    + topic_xml("quotes", "<Expiration>1h</Expiration>"),
    ("t", "past", "own", "quotes"),
)


def side(lab: Lab, topic: str, at: int | None = None, after: int | None = None) -> DiffSide:
    instance = lab.open()
    return DiffSide(instance, resolve_targets(instance, topic, derived=True)[0], topic, at, after)


def found(before: DiffSide, after: DiffSide, **options: object) -> tuple[list[RecordChange], DiffCounts]:
    with closing(compare_sides(before, after, DiffOptions(**options))) as comparison:  # type: ignore[arg-type]
        return list(comparison.iterate_changes()), comparison.counts


def told(changes: Sequence[RecordChange]) -> dict[str, object]:
    """Return the reported difference of each key."""
    return {
        one.key: one.kind if one.kind != "changed" else [format_path(part.path) for part in one.fields]
        for one in changes
    }


def envelopes(before: DiffSide, after: DiffSide) -> bytes:
    with closing(compare_sides(before, after, DiffOptions())) as made:
        lines = [
            encode_envelope(made.topic, made.message_type, change, user_keys=made.user_keys, lifetimes=made.lifetimes)
            for change in made.iterate_changes()
        ]
    return b"".join(line + b"\n" for line in lines)


def take(lab: Lab, lines: bytes) -> None:
    """Publish envelopes, as ``sowctl publish --framing envelope`` does."""
    options = PublishOptions(on_error="stop")
    report = publish_messages(lab.open(), None, [("diff", FrameReader(io.BytesIO(lines), "envelope"))], options)
    assert not report.rejected


def content(lab: Lab, topic: str) -> str | None:
    instance = lab.open()
    try:
        return compute_digest(instance, resolve_targets(instance, topic)[0], None, open_target, payloads=True).digest
    except MissingError:
        return None


BODY = st.dictionaries(st.sampled_from("abc"), st.sampled_from([None, 1, 2, "x", [1, 2], {"p": 1}, [{"q": 1}]]))
STEP = st.tuples(
    st.sampled_from(["publish", "publish", "publish", "delete", "clock"]),
    st.sampled_from(NAMES),
    st.integers(0, 5),
    BODY,
    st.sampled_from([None, None, 0, 30, 7200]),
)


def _do(lab: Lab, step: tuple[str, str, int, dict[str, object], int | None]) -> None:
    verb, topic, key, body, lifetime = step
    if verb == "clock":
        lab.clock.tick(20)
    elif verb == "publish":
        options = {"sow_key": f"k{key}"} if topic == "own" else {}
        lab.publish(topic, message(id=key, **body), expiration=lifetime, **options)
    elif lab.store(topic).exists():
        chosen = {"sow_keys": (f"k{key}",)} if topic == "own" else {"filter": f"/id = {key}"}
        lab.open().topic(topic).delete(**chosen)  # type: ignore[arg-type]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=12), st.lists(STEP, max_size=12))
def test_envelopes_make_the_one_state_into_the_other(old: list, new: list) -> None:  # type: ignore[type-arg]
    with (
        tempfile.TemporaryDirectory() as place,
        verified(Lab(Path(place) / "a", XML)) as one,
        verified(Lab(Path(place) / "b", XML)) as other,
    ):
        for lab, steps in ((one, old), (other, new)):
            for step in steps:
                _do(lab, step)
        one.clock.at = other.clock.at = max(one.clock.at, other.clock.at)
        for topic in NAMES:
            if not (one.store(topic).exists() and other.store(topic).exists()):
                continue
            before, after = content(one, topic), content(other, topic)
            changes, counts = found(side(one, topic), side(other, topic))
            # All three agree: the digests, the differences, and the records one by one.
            assert (before == after) is (not changes) is (counts.different == 0)
            there, here = _records(one, topic), _records(other, topic)
            assert counts.equal == sum(there[key] == here[key] for key in there.keys() & here.keys())
            assert counts.added == len(here.keys() - there.keys())
            assert counts.removed == len(there.keys() - here.keys())
            take(one, envelopes(side(one, topic), side(other, topic)))
            assert content(one, topic) == content(other, topic) == after
            assert found(side(one, topic), side(other, topic))[0] == []
            # Without --meta, lifetimes are not compared, but each written record gets the lifetime of its envelope.
            written = {key for key in here if there.get(key) != here[key]}
            mine, theirs = _lifetimes(one, topic), _lifetimes(other, topic)
            assert all(mine.get(key) == theirs.get(key) for key in written)


def _records(lab: Lab, topic: str) -> dict[bytes, bytes]:
    return {record.key: record.payload for record in lab.records(topic)}


def _lifetimes(lab: Lab, topic: str) -> dict[bytes, bool]:
    return {record.key: record.expiration == 0 for record in lab.records(topic)} if topic != "quotes" else {}


def test_instants_of_one_topic(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=1), message(id=2, a=1))
    lab.clock.tick(10)
    lab.publish("t", message(id=1, a=2), message(id=3))
    lab.open().topic("t").delete(filter="/id = 2")
    changes, counts = found(side(lab, "t", START), side(lab, "t"))
    assert told(changes) == {"1": ["/a"], "2": "removed", "3": "added"}
    assert (counts.changed, counts.added, counts.removed, counts.equal) == (1, 1, 1, 0)
    assert {format_path(path): number for path, number in counts.fields.items()} == {"/a": 1}
    backwards, _ = found(side(lab, "t"), side(lab, "t", START))
    assert told(backwards) == {"1": ["/a"], "2": "added", "3": "removed"}


def test_a_range_of_the_journal_has_what_its_entries_leave(lab: Lab) -> None:
    for number in range(4):
        lab.publish("t", message(id=number))
        lab.clock.tick(10)
    within = side(lab, "t", START + 25_000_000, START + 5_000_000)
    changes, _ = found(within, side(lab, "t"))
    assert told(changes) == {"0": "added", "3": "added"}
    lab.publish("alone", message(id=1))
    with pytest.raises(MissingError, match="'alone'") as caught:
        found(side(lab, "alone", None, START), side(lab, "alone"))
    assert caught.value.code == "SOW-QRY-021"


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=16), st.integers(0, 3), st.integers(0, 3))
def test_a_range_is_what_was_published_in_it_and_is_still_there(steps: list, one: int, more: int) -> None:  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory() as place, verified(Lab(Path(place) / "lab", XML)) as lab:
        for step in steps:
            _do(lab, (step[0], "t", *step[2:4], None))
        since, until = START + one * 20_000_000, START + (one + more) * 20_000_000
        if not lab.store("t").exists():
            return
        then = {record.key: record.payload for record in lab.records("t", at=until) if record.timestamp > since}
        changes, counts = found(side(lab, "t", until, since), side(lab, "t", until))
        # No record of the range is missing or different in the state at its end.
        assert {change.kind for change in changes} <= {"added"}
        assert counts.equal == len(then)


def test_bytes_alone_are_a_difference_unless_it_is_loose(lab: Lab) -> None:
    lab.publish("t", '{"id":1,"a":1}', '{"id":2,"a":1}')
    lab.clock.tick(10)
    lab.publish("t", '{"a": 1, "id": 1}', '{"id":2,"a":1.0}')
    changes, _ = found(side(lab, "t", START), side(lab, "t"))
    assert told(changes) == {"1": [], "2": ["/a"]}
    loose, counts = found(side(lab, "t", START), side(lab, "t"), loose=True)
    assert loose == [] and counts.equal == 2


def test_fields_keys_and_filters_choose(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=1, o={"x": 1}), message(id=2, a=1), message(id=3, a=7))
    lab.clock.tick(10)
    lab.publish("t", message(id=1, a=2, o={"x": 2}), message(id=2, b=1, a=1), message(id=3, a=8))
    old, new = side(lab, "t", START), side(lab, "t")
    assert told(found(old, new)[0]) == {"1": ["/a", "/o/x"], "2": ["/b"], "3": ["/a"]}
    assert told(found(old, new, fields=("/o",))[0]) == {"1": ["/o/x"]}
    assert told(found(old, new, fields=("/o/x",))[0]) == {"1": ["/o/x"]}
    changes, counts = found(old, new, ignored=("/a", "/b"))
    assert told(changes) == {"1": ["/o/x"]} and counts.equal == 2
    assert told(found(old, new, keys=("2",))[0]) == {"2": ["/b"]}
    # A record that matches on one side is reported with the values of both.
    changes, counts = found(old, new, filter="/a = 7 OR /a = 2")
    assert told(changes) == {"1": ["/a", "/o/x"], "3": ["/a"]} and counts.equal is None


def test_metadata_is_compared_where_it_is_wanted(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    lab.clock.tick(10)
    lab.publish("t", message(id=1))
    old, new = side(lab, "t", START), side(lab, "t")
    assert found(old, new)[0] == []
    changes, _ = found(old, new, stamps=True)
    assert [(name, one, other) for name, one, other in changes[0].facts] == [
        ("timestamp", "2026-01-05T08:00:00.000000Z", "2026-01-05T08:00:10.000000Z"),
        ("txid", 1, 2),
    ]


def test_topics_with_other_keys_are_paired_by_their_key_fields(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(
        config_xml(topic_xml("a") + topic_xml("b") + topic_xml("c", key="/name") + topic_xml("u", key=None), ())
    )
    for topic, name in (("a", "x"), ("b", "x"), ("c", "x")):
        lab.publish(topic, message(id=1, name=name), message(id=2, name="y", of=topic))
    lab.publish("u", message(id=1, name="z"), sow_key="1")
    assert told(found(side(lab, "a"), side(lab, "b"))[0]) == {"2": ["/of"]}
    with pytest.raises(UsageError, match="different keys") as refused:
        found(side(lab, "a"), side(lab, "c"))
    assert refused.value.code == "SOW-DIF-001"
    paired, _ = found(side(lab, "a"), side(lab, "c"), on=("/name",))
    assert told(paired) == {"y": ["/of"]} and not paired[0].keyed
    assert told(found(side(lab, "a"), side(lab, "u"), on=("/id",))[0]) == {"1": ["/name"], "2": "removed"}
    with pytest.raises(UsageError, match="--key requires"):
        found(side(lab, "a"), side(lab, "b"), keys=("1",))
    # Several records with one text are distinguished by their number.
    lab.publish("a", message(id=3, name="y", of="a"))
    changes, counts = found(side(lab, "a"), side(lab, "a"), on=("/name",))
    assert changes == [] and counts.equal == 3


def test_states_in_several_batches_meet(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STORE_LIMITS, "read_batch_records", 3)
    lab.publish("t", *(message(id=number, a=0) for number in range(40)))
    lab.clock.tick(1)
    lab.publish("t", *(message(id=number, a=1) for number in range(5, 60, 5)))
    lab.open().topic("t").delete(filter="/id % 7 = 0 AND /id < 40")
    changes, counts = found(side(lab, "t", START), side(lab, "t"))
    gone = set(range(0, 40, 7))
    changed = set(range(5, 40, 5)) - gone
    added = set(range(40, 60, 5))
    assert {int(one.key): one.kind for one in changes} == (
        dict.fromkeys(gone, "removed") | dict.fromkeys(changed, "changed") | dict.fromkeys(added, "added")
    )
    assert counts.equal == 40 - len(gone) - len(changed)
    assert [one.after or one.before for one in changes] == sorted(
        (one.after or one.before for one in changes),
        key=lambda record: record.key,  # type: ignore[union-attr]
    )


def test_messages_of_other_types_are_not_compared(make_lab) -> None:  # type: ignore[no-untyped-def]
    fix = "<Topic><Name>f</Name><MessageType>fix</MessageType><Key>/11</Key><FileName>sow/%n.sow</FileName></Topic>"
    lab = make_lab(config_xml(topic_xml("a") + fix, ()))
    lab.publish("a", message(id=1))
    lab.publish("f", b"11=1\x0138=5")
    with pytest.raises(UsageError, match="type json"):
        found(side(lab, "a"), side(lab, "f"))


def test_logical_topics_and_deletes_by_envelopes(make_lab) -> None:  # type: ignore[no-untyped-def]
    one, other = make_lab(config_xml(PATTERN, ("many",)), "one"), make_lab(config_xml(PATTERN, ("many",)), "other")
    one.publish("many-a", message(id=1), message(id=2))
    other.publish("many-a", message(id=2, a=1))
    other.publish("many-b", message(id=1))
    lines = envelopes(side(one, "many"), side(other, "many"))
    rows = [json.loads(line) for line in lines.splitlines()]
    assert sorted((row["topic"], row.get("command", "")) for row in rows) == [
        ("many-a", ""),
        ("many-a", "sow_delete"),
        ("many-b", ""),
    ]
    take(one, lines)
    assert content(one, "many") == content(other, "many")

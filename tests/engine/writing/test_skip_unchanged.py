"""skip_unchanged: messages that would not change their record are counted but not written; all others are written."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import PublishReport
from sowctl.engine.verbs.publish import publish_messages
from sowctl.errors import InputError, UsageError
from sowctl.messages.framing.frames import FrameReader
from tests.support.instances import Lab, config_xml, message, topic_xml

SEED = [message(id=number, v=number) for number in range(1, 6)]


def _envelopes(lab: Lab, topic: str, *rows: dict[str, object], **options: object) -> PublishReport:
    data = "".join(json.dumps({"topic": topic, **row}) + "\n" for row in rows).encode()
    reader = FrameReader(io.BytesIO(data), "envelope")
    chosen = PublishOptions(skip_unchanged=True, **options)  # type: ignore[arg-type]
    return publish_messages(lab.open(), None, [("in", reader)], chosen)


@pytest.mark.parametrize("topic", ["t", "alone", "past"])
def test_a_seed_published_twice_is_written_once(lab: Lab, topic: str) -> None:
    assert lab.publish(topic, *SEED, skip_unchanged=True).published == 5
    before = lab.digest(topic)
    lab.clock.tick(60)
    again = lab.publish(topic, *SEED, message(id=6), skip_unchanged=True)
    assert (again.published, again.inserted, again.updated, again.unchanged) == (1, 1, 0, 5)
    assert (again.topics[0].inserted, again.topics[0].unchanged) == (1, 5)
    assert again.first_txid == again.last_txid
    assert before != lab.digest(topic)
    assert lab.publish(topic, *SEED, skip_unchanged=True).last_txid == 0


def test_nothing_reaches_the_journal(lab: Lab) -> None:
    lab.publish("t", *SEED)
    size = lab.journals()[-1].read_bytes()
    lab.publish("t", *SEED, skip_unchanged=True)
    assert lab.journals()[-1].read_bytes() == size


def test_a_dry_run_counts_the_same(lab: Lab) -> None:
    lab.publish("t", *SEED)
    report = lab.publish("t", *SEED, message(id=1, v=9), skip_unchanged=True, dry_run=True)
    assert (report.published, report.updated, report.unchanged) == (1, 1, 5)


def test_the_message_before_in_the_same_run_counts(lab: Lab) -> None:
    one, two = message(id=1, v=1), message(id=1, v=2)
    report = lab.publish("t", one, one, two, two, one, skip_unchanged=True)
    assert (report.published, report.inserted, report.updated, report.unchanged) == (3, 1, 2, 2)
    assert lab.query("t") == [one]


def test_a_delta_is_compared_when_it_is_merged(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=1, b=2))
    report = lab.publish("t", message(id=1, b=2), message(id=1, b=3), delta=True, skip_unchanged=True)
    assert (report.published, report.unchanged) == (1, 1)


def test_another_correlation_id_is_a_change(lab: Lab) -> None:
    row = {"data": {"id": 1}}
    assert _envelopes(lab, "t", row | {"correlation_id": "a"}).published == 1
    assert _envelopes(lab, "t", row | {"correlation_id": "a"}).unchanged == 1
    assert _envelopes(lab, "t", row | {"correlation_id": "b"}).updated == 1
    assert _envelopes(lab, "t", row).updated == 1
    assert _envelopes(lab, "t", row).unchanged == 1


def test_a_new_lifetime_is_a_change_and_the_same_end_is_none(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t", "<Expiration>1h</Expiration>"), ("t",)))
    lab.publish("t", *SEED)
    lab.clock.tick(1)
    assert lab.publish("t", *SEED, skip_unchanged=True).updated == 5
    assert lab.publish("t", *SEED, expiration=0, skip_unchanged=True).updated == 5
    assert lab.publish("t", *SEED, expiration=0, skip_unchanged=True).unchanged == 5


def test_messages_with_their_own_times_are_skipped_though_they_are_older(lab: Lab) -> None:
    rows = [message(id=number, at=f"2026-01-05T07:0{number}:00Z") for number in range(1, 4)]
    for published, unchanged in ((3, 0), (0, 3)):
        report = lab.publish("t", *rows, timestamp_field="/at", skip_unchanged=True)
        assert (report.published, report.unchanged) == (published, unchanged)
    with pytest.raises(InputError) as caught:
        lab.publish("t", rows[0].replace("}", ',"v":1}'), timestamp_field="/at", skip_unchanged=True)
    assert caught.value.code == "SOW-PUB-006"


def test_a_deletion_between_two_equal_messages_counts(lab: Lab) -> None:
    row = {"data": {"id": 1}}
    report = _envelopes(lab, "t", row, row | {"command": "sow_delete"}, row, row)
    assert (report.inserted, report.deleted, report.unchanged) == (2, 1, 1)


def test_what_others_published_meanwhile_counts(lab: Lab) -> None:
    """The compared record is the one at the moment of writing, under the locks, not at the start of the run."""
    one, two = message(id=1, v=1), message(id=1, v=2)

    def read() -> Iterator[tuple[str, FrameReader]]:
        yield "first", FrameReader(io.BytesIO(one.encode()), "lines")
        line = [sys.executable, "-m", "sowctl", "publish", "t", "-c", str(lab.config), "--now", "2026-01-05T08:00:00Z"]
        subprocess.run(line, input=two.encode(), check=True, capture_output=True, timeout=60)
        yield "second", FrameReader(io.BytesIO(one.encode()), "lines")

    report = publish_messages(lab.open(), "t", read(), PublishOptions(skip_unchanged=True))
    assert (report.published, report.unchanged) == (2, 0)
    assert lab.query("t") == [one]


def test_a_topic_without_records_has_nothing_to_compare_with(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t", "log")))
    with pytest.raises(UsageError) as caught:
        lab.open().publish("log", ["{}"], skip_unchanged=True)
    assert caught.value.code == "SOW-PUB-030"


Message = tuple[int, int, str | None]


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.sampled_from([None, "c", "d"])), max_size=8))
)
def test_the_records_are_those_of_a_plain_publish_and_each_entry_changes_one(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[Message]]
) -> None:
    """The law: readers see the same except for times, and messages that differ from the last one are written."""
    plain, skipping = (
        Lab(tmp_path_factory.mktemp(name), config_xml(topic_xml("t"), ("t",))) for name in ("plain", "skipping")
    )
    now: dict[int, Message] = {}
    for messages in rounds:
        rows: list[dict[str, object]] = [
            {"data": {"id": key, "v": value}, "correlation_id": cor} for key, value, cor in messages
        ]
        written = 0
        for one in messages:
            written += now.get(one[0]) != one
            now[one[0]] = one
        if rows:
            report = _envelopes(skipping, "t", *rows, batch=3)
            assert (report.published, report.unchanged) == (written, len(rows) - written)
            _publish_plain(plain, rows)
    told = [[(r.payload, r.correlation_id) for r in lab.records("t")] if now else [] for lab in (plain, skipping)]
    assert told[0] == told[1]


def _publish_plain(lab: Lab, rows: list[dict[str, object]]) -> None:
    data = "".join(json.dumps({"topic": "t", **row}) + "\n" for row in rows).encode()
    publish_messages(lab.open(), None, [("in", FrameReader(io.BytesIO(data), "envelope"))], PublishOptions())

"""Times beyond the year 9999: expirations and stamps never reach them; journals that contain them can be read."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sowctl.engine.bulk.commit import commit_run
from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.engine.options import PublishOptions
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing import outcome
from sowctl.errors import InputError, UsageError
from sowctl.messages.framing.envelope import Envelope
from sowctl.messages.framing.frames import FrameReader
from sowctl.output.formats import make_renderer as renderer
from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch
from sowctl.values import times
from sowctl.values.times import MAX_MICROS, MICROS_PER_SECOND, format_time
from tests.engine.conftest import MakeLab
from tests.support.instances import START, Lab, config_xml, message, topic_xml, verified
from tests.support.staged import SKIP, make, run, stage

FAR = 500_000 * 7 * 86_400.0
"""500,000 weeks in seconds."""
LAST = "9999-12-31T23:59:59.999999Z"


@pytest.mark.parametrize("seconds", [FAR, 40 * FAR, 1e300, float("inf")])
@pytest.mark.parametrize("topic", ["quotes", "fading", "alone"])
def test_a_lifetime_without_an_end_is_none(lab: Lab, topic: str, seconds: float) -> None:
    lab.publish(topic, message(id=1), expiration=seconds)
    (record,) = lab.records(topic)
    assert record.expiration == 0


@pytest.mark.parametrize("weeks", ["500000w", "20000000w", "9" * 400 + "w"])
def test_a_configured_one_too(make_lab: MakeLab, weeks: str) -> None:
    lab = make_lab(config_xml(topic_xml("t", f"<Expiration>{weeks}</Expiration>"), ("t",)))
    lab.publish("t", message(id=1))
    assert [record.expiration for record in lab.records("t")] == [0]


def _envelopes(lab: Lab, *lines: dict[str, object]) -> None:
    text = b"".join(
        json.dumps({"topic": "fading", "data": {"id": n}} | line).encode() + b"\n" for n, line in enumerate(lines)
    )
    publish_messages(lab.open(), None, [("in", FrameReader(io.BytesIO(text), "envelope"))], PublishOptions())


def test_what_envelopes_say(lab: Lab) -> None:
    ends = [
        253402300800,
        1e300,
        LAST,
        {"timestamp": LAST, "expiration": 2},
        (MAX_MICROS - START) / MICROS_PER_SECOND - 1,
    ]
    lines = [end if isinstance(end, dict) else {"expiration": end} for end in ends]
    _envelopes(lab, *sorted(lines, key=lambda line: "timestamp" in line))
    found = {json.loads(record.payload)["id"]: record.expiration for record in lab.records("fading")}
    assert sorted(found.values())[:3] == [0, 0, 0]
    assert max(found.values()) == MAX_MICROS
    assert len([end for end in found.values() if end]) == 2
    with pytest.raises(InputError, match="outside the years") as caught:
        _envelopes(lab, {"expiration": "253402300800s"})
    assert caught.value.code == "SOW-PUB-005"


@pytest.mark.parametrize(
    "text", ["253402300800s", "9" * 30 + "s", "9" * 5000 + "ns", "+500000w", "-99999999w", "1.5e9s"]
)
def test_a_stamp_beyond_all_years_is_refused(lab: Lab, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        lab.publish("t", message(id=1), timestamp=text)
    assert caught.value.code == ("SOW-VAL-010" if "e" in text else "SOW-VAL-020")
    with pytest.raises(InputError, match="its time"):
        lab.publish("t", message(id=1, at=text), timestamp_field="/at")


def test_a_bulk_load_says_the_same(tmp_path: Path) -> None:
    with verified(make(tmp_path)) as lab:
        for topic in ("log", "brief", "alone"):
            report = run(lab, topic, [message(id=1)], options=PublishOptions(expiration=FAR))
            assert (report.published, report.ahead) == (1, None)
            instance = lab.open()
            with hold_staging_area(instance, instance.topic(topic).config) as area:
                ends = [1e300, FAR, format_time(MAX_MICROS), 1e-9]
                envelopes = [Envelope(expiration=end) for end in ends]
                done = stage(area.build_plan(SKIP), "t", 0, [message(id=n) for n in range(2, 6)], envelopes=envelopes)
                commit_run(area, area.build_plan(SKIP), [done])
            lab.clock.tick(0)
            found = {json.loads(record.payload)["id"]: record.expiration for record in lab.records(topic)}
            assert found == {1: 0, 2: 0, 3: 0, 4: MAX_MICROS, 5: START + 1}


@pytest.fixture
def poisoned(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A journal and a store with an expiration and times from before the limit existed."""
    lab = make_lab(config_xml(topic_xml("t", "<Expiration>enabled</Expiration>"), ("t",)))
    with monkeypatch.context() as patched:
        patched.setattr(outcome, "compute_expiry", lambda at, length: at + length)
        patched.setattr(times, "MAX_MICROS", 1 << 62)
        lab.publish("t", message(id=1), expiration=FAR)
        lab.publish("t", message(id=2), timestamp="253402300900s")
    assert {record.expiration > MAX_MICROS for record in lab.records("t")} == {True, False}
    yield lab


@pytest.mark.parametrize("format", ["ndjson", "json", "csv", "tsv", "table", "msgpack"])
def test_what_is_there_already_is_read(poisoned: Lab, format: str) -> None:
    topic = poisoned.open().topic("t")
    out = io.BytesIO()
    batches: list[Batch] = list(topic.query())
    renderer(format, OutputOptions(meta=True)).write(batches, out)
    assert LAST.encode() in out.getvalue()
    assert out.getvalue().count(b"9999-") == 1
    assert next(version.expiration for version in topic.versions("1", fields=True, journal=True)) > MAX_MICROS


def test_publishing_goes_on_there(poisoned: Lab) -> None:
    assert poisoned.publish("t", message(id=3)).ahead is not None
    assert poisoned.open().topic("t").info().last_update is not None
    assert poisoned.open().topic("t").replay(verify=True).action == "verified"


def test_a_topic_ahead_of_the_clock_is_told_once_in_a_run(lab: Lab) -> None:
    far = format_time(START + 3 * 86_400 * MICROS_PER_SECOND)
    near = format_time(START + 20 * 3600 * MICROS_PER_SECOND)
    assert lab.publish("t", message(id=1), timestamp=near).ahead is None
    assert not lab.notes
    report = lab.publish("t", *[message(id=n) for n in range(9)], timestamp=far, batch=2)
    assert report.ahead == START + 3 * 86_400 * MICROS_PER_SECOND
    assert len(lab.notes) == 1
    assert far in lab.notes[0]
    assert lab.publish("t", message(id=1), dry_run=True).ahead == report.ahead
    assert lab.publish("quotes", message(id=1)).ahead is None


def test_a_bulk_load_tells_it_too(tmp_path: Path) -> None:
    with verified(make(tmp_path)) as lab:
        far = format_time(START + 3 * 86_400 * MICROS_PER_SECOND)
        report = run(lab, "log", [message(id=1)], options=PublishOptions(timestamp=far))
        assert report.ahead == START + 3 * 86_400 * MICROS_PER_SECOND
        assert [far in note for note in lab.notes] == [True]


@pytest.mark.parametrize("dry_run", [True, False])
def test_messages_that_are_over_are_counted(lab: Lab, dry_run: bool) -> None:
    payloads = [message(id=n, at=format_time(START - n * 10 * MICROS_PER_SECOND)) for n in (9, 5, 2, 0)]
    report = lab.publish("quotes", *payloads, timestamp_field="/at", batch=2, dry_run=dry_run)
    assert (report.published, report.inserted, report.already_expired) == (4, 4, 2)
    assert [row.already_expired for row in report.topics] == [2]
    # Unless expiration is enabled, nothing expires: the stamp is kept, the record stays.
    report = lab.publish("t", payloads[0], timestamp_field="/at", expiration=1, dry_run=dry_run)
    assert (report.published, report.already_expired) == (1, 0)


def test_what_a_stop_leaves_out_is_not_counted(lab: Lab) -> None:
    at = format_time(START - 60 * MICROS_PER_SECOND)
    seen: list[object] = []
    lines = [message(id=1, at=at), "{bad", message(id=2, at=at)]
    with pytest.raises(InputError) as caught:
        lab.publish("quotes", *lines, timestamp_field="/at")
    report = caught.value.facts["report"]
    assert (report.published, report.already_expired) == (1, 1)
    assert not seen


def test_a_bulk_load_counts_them(tmp_path: Path) -> None:
    with verified(make(tmp_path)) as lab:
        instance = lab.open()
        with hold_staging_area(instance, instance.topic("brief").config) as area:
            plan = area.build_plan(SKIP)
            envelopes = [Envelope(expiration=format_time(START - 1)), Envelope(expiration=900)]
            done = stage(plan, "t", 0, [message(id=1), message(id=2)], envelopes=envelopes)
            report = commit_run(area, plan, [done])
        assert (report.published, report.already_expired) == (2, 1)

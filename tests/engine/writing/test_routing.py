"""The topic of a message: from the command or its envelope; each rejection at its message; sequence numbers by log."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sowctl.engine.fold.limits import MEMTABLE_LIMITS
from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import PublishReport, Rejected
from sowctl.engine.verbs.publish import publish_messages
from sowctl.errors import DamageError, SowError
from sowctl.messages.framing.frames import FrameReader
from tests.support.instances import Lab, config_xml, topic_xml


def _send(
    lab: Lab, *rows: dict[str, object], to: str | None = None, **options: object
) -> tuple[PublishReport, list[Rejected]]:
    """Publish one batch of envelopes."""
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    refused: list[Rejected] = []
    chosen = PublishOptions(on_error="skip", **options)  # type: ignore[arg-type]
    source = FrameReader(io.BytesIO(lines), "envelope")
    return publish_messages(lab.open(), to, [("in", source)], chosen, on_reject=refused.append), refused


def _ids(lab: Lab, topic: str) -> list[int]:
    return sorted(json.loads(text)["id"] for text in lab.query(topic))


def test_messages_of_several_topics_are_refused_at_their_own_lines(lab: Lab) -> None:
    bad: dict[str, object] = {"topic": "t", "data": {}}
    rows: list[dict[str, object]] = [
        {"topic": "alone", "data": {"id": 1}},
        bad,
        {"topic": "nowhere", "data": {"id": 2}},
        {"topic": "t", "data": {"id": 3}},
        {"topic": "own", "data": {"id": 4}},
        {"topic": "alone", "data": {"id": 5}},
        {"data": {"id": 6}},
        bad,
    ]
    report, refused = _send(lab, *rows)
    assert (report.published, _ids(lab, "alone"), _ids(lab, "t")) == (3, [1, 5], [3])
    found = sorted((one.line, one.code, json.loads(one.payload)) for one in refused)
    assert found == [
        (2, "SOW-PUB-002", {}),
        (3, "SOW-ENG-012", {"id": 2}),
        (5, "SOW-PUB-003", {"id": 4}),
        (7, "SOW-PUB-015", {"id": 6}),
        (8, "SOW-PUB-002", {}),
    ]


def test_the_topic_of_the_command_wins_over_those_of_envelopes(lab: Lab) -> None:
    report, refused = _send(lab, {"topic": "alone", "data": {"id": 1}}, {"data": {"id": 2}}, to="t")
    assert (report.published, refused, _ids(lab, "t")) == (2, [], [1, 2])
    assert not lab.store("alone").exists()


def test_logical_topics_of_one_store_keep_the_order_of_the_input(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("all", "<Pattern>^/[a-z]</Pattern>") + topic_xml("t"), ("all", "t")))
    names = ["/a", "/b", "t", "/a", "/c", "t", "/b"]
    _send(lab, *({"topic": name, "data": {"id": number}} for number, name in enumerate(names)))
    records = sorted(lab.records("all"), key=lambda record: record.txid)
    assert [json.loads(record.payload)["id"] for record in records] == [0, 1, 3, 4, 6]
    assert _ids(lab, "/b") == [1, 6]


def test_a_topic_that_is_not_there_refuses_messages_and_a_damaged_one_ends_the_run(lab: Lab) -> None:
    lab.store("alone").parent.mkdir(exist_ok=True)
    lab.store("alone").write_bytes(b"no store" * 1000)
    rows = [{"topic": name, "data": {"id": 1}} for name in ("nowhere", "t", "alone")]
    report, refused = _send(lab, *rows[:2])
    assert (report.published, [one.code for one in refused]) == (1, ["SOW-ENG-012"])
    with pytest.raises(SowError) as caught:
        _send(lab, *rows)
    assert isinstance(caught.value, DamageError)
    lab.forget("alone")


def test_the_client_of_a_run_is_the_command_s_or_the_first_that_is_named(lab: Lab) -> None:
    def rows(first: int) -> list[dict[str, object]]:
        clients = (None, "a", "b", "a")
        return [
            {"topic": "t", "client": client, "sequence": number, "data": {"id": number}}
            for number, client in enumerate(clients, first)
        ]

    report, refused = _send(lab, *rows(1))
    assert (report.published, [(one.line, one.code) for one in refused]) == (3, [(3, "SOW-PUB-008")])
    report, refused = _send(lab, *rows(1), client="b")
    assert (report.published, report.duplicates, refused) == (4, 0, []), "numbers of another client than the run before"
    report, refused = _send(lab, *rows(3), client="b")
    assert (report.published, report.duplicates, refused) == (2, 2, [])


def test_numbers_are_judged_together_in_the_journal_and_apart_without_one(lab: Lab) -> None:
    def told(topic: str, sequence: int) -> tuple[int, int]:
        row = {"topic": topic, "sequence": sequence, "data": {"id": sequence}}
        report, _ = _send(lab, row, client="c")
        return report.published, report.duplicates

    assert told("t", 5) == (1, 0)
    assert told("past", 5) == (0, 1), "the journal has the number, whichever topic it came to"
    assert told("alone", 3) == (1, 0), "a topic without a journal has numbers of its own"
    assert told("alone", 3) == (0, 1)
    assert told("past", 6) == (1, 0)
    assert told("t", 6) == (0, 1)
    rows = [("alone", 4), ("past", 6), ("past", 7), ("alone", 8), ("t", 9)]
    report, _ = _send(lab, *({"topic": name, "sequence": n, "data": {"id": n}} for name, n in rows), client="c")
    assert (report.published, report.duplicates) == (4, 1)
    assert [_ids(lab, topic) for topic in ("alone", "past", "t")] == [[3, 4, 8], [6, 7], [5, 9]]


def test_several_topics_wait_as_columns_like_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions by columns equal those by lists, in each topic of a batch, with repeated keys."""
    xml = config_xml(topic_xml("t") + topic_xml("u"), ("t", "u"))
    rows = [{"topic": "tu"[n % 3 == 0], "data": {"id": n * n % 7, "n": n // 9}} for n in range(60)]
    found = []
    for columns in (False, True):
        if columns:
            monkeypatch.setattr(MEMTABLE_LIMITS, "columned", 1)
            monkeypatch.setattr(MEMTABLE_LIMITS, "columned_after", 0)
        lab = Lab(tmp_path / str(columns), xml)
        report, refused = _send(lab, *rows, batch=13)
        assert (report.published, refused) == (60, [])
        counts = report.inserted, report.updated, report.unchanged
        before = [sorted(lab.records(name), key=lambda one: one.txid) for name in ("t", "u")]
        lab.forget("t")
        lab.open().topic("t").replay()
        found.append((counts, lab.digest("t"), lab.digest("u"), [[one.payload for one in some] for some in before]))
    assert found[0] == found[1]

"""A writing session: a topic is opened once, updated by every batch, and applied when the session ends."""

from __future__ import annotations

import subprocess
import sys

import pytest
from msgspec.structs import replace

from sowctl.engine.fold.flush_plan import FlushStep
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.writing.session import WriteSession, read_recorded_sequence
from sowctl.errors import ConfigError, LockedError
from tests.support.instances import Lab, config_xml, message, numbered, topic_xml


def _topic(lab: Lab, name: str = "t"):  # type: ignore[no-untyped-def]
    return resolve_targets(lab.open(), name)[0].topic


def _elsewhere(lab: Lab, payload: str) -> None:
    """Publish in another process: this process may open a store only once."""
    command = [sys.executable, "-m", "sowctl", "publish", "t", "-", "-c", str(lab.config)]
    subprocess.run(command, input=payload.encode(), check=True, capture_output=True, timeout=60)


def test_a_topic_is_opened_once(lab: Lab) -> None:
    with WriteSession(lab.open()) as session:
        writer = session.open_topic(_topic(lab))
        assert session.open_topic(_topic(lab)) is writer
        assert session.open_store(_topic(lab)) is writer
        assert list(session.writers) == list(session.stores) == [("t", "json")]


def test_a_batch_sees_what_others_published_before_it(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    with WriteSession(lab.open()) as session:
        writer = session.open_topic(_topic(lab))
        _elsewhere(lab, message(id=2))
        with session.hold_batch_locks([writer]):
            assert writer.last_txid == 2
            assert session.journal.last_txid == 2


def test_each_flush_is_explained_to_who_asks(lab: Lab) -> None:
    notes: list[str] = []
    instance = replace(lab.open(), tell_more=notes.append)
    instance.topic("t").publish([message(id=1).encode()])
    assert [note for note in notes if FlushStep.IN_PLACE.value in note] == notes != []


def test_a_batch_holds_the_locks_until_it_ends(lab: Lab) -> None:
    other = lab.open(lock_wait=0.0)
    for name in ("t", "alone"):
        with WriteSession(lab.open()) as session:
            writer = session.open_topic(_topic(lab, name))
            with session.hold_batch_locks([writer]), pytest.raises(LockedError):
                other.topic(name).publish([b'{"id":1}'])
            session.flush_final()
        other.topic(name).publish([b'{"id":1}'])
        assert lab.query(name) == [message(id=1)]


def test_a_dry_run_opens_no_store_and_makes_no_journal(lab: Lab) -> None:
    with WriteSession(lab.open(), dry_run=True) as session:
        writer = session.open_topic(_topic(lab))
        with session.hold_batch_locks([writer]):
            assert writer.last_txid == 0
        assert session.stores == {}
        session.flush_final()
    assert not lab.store("t").exists()
    assert lab.journals() == []


def test_the_highest_sequence_is_known_where_it_is_kept(lab: Lab) -> None:
    assert read_recorded_sequence(lab.open(), 7) == 0
    numbered(lab, "t", 1, 2)
    with WriteSession(lab.open()) as session:
        session.open_topic(_topic(lab))
        session.open_topic(_topic(lab, "alone"))
        assert session.find_highest_sequence(7) == 0


def test_without_a_transaction_log_there_is_no_journal_to_open(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("t"), ()))
    with WriteSession(lab.open()) as session, pytest.raises(ConfigError) as caught:
        _ = session.journal
    assert caught.value.code == "SOW-ENG-020"


def test_nothing_is_applied_after_a_broken_note(lab: Lab) -> None:
    """The memtables may lack entries then: a store must not claim their txids."""
    lab.publish("t", message(id=1))
    with WriteSession(lab.open()) as session:
        session.open_store(_topic(lab))
        _elsewhere(lab, message(id=2))
        with pytest.raises(KeyboardInterrupt), session.guard_memtables():
            raise KeyboardInterrupt
        before = lab.store("t").read_bytes()
        session.flush_forced()
        assert lab.store("t").read_bytes() == before
    assert lab.open().topic("t").replay(verify=True).action == "verified"

"""Journal files pruned during a fold: an error, and never a state that lacks their entries."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sowctl.engine.fold.rebuild import RebuildResult, rebuild_stores
from sowctl.engine.maintenance.retention.prune import KeepRule, prune_files
from sowctl.engine.options import ReplayOptions
from sowctl.engine.sources import current, past, recovery
from sowctl.engine.topics.positions import STORE_AHEAD_OF_JOURNAL
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.history import read_key_versions
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.verbs.upkeep.journal_bisect import BisectOptions, bisect_journal
from sowctl.errors import DamageError, MissingError, RefusedError
from sowctl.journal.reader import Journal
from tests.support.instances import START, Lab, config_xml, message, put_back, topic_xml, verified


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A journal of several files and an up-to-date store: pruning may remove every file but the last one."""
    made = Lab(tmp_path / "lab", config_xml(topic_xml("t"), ("t",)), journal_size=900)
    for number in range(12):
        made.publish("t", *(message(id=10 * number + n) for n in range(10)))
    assert len(made.journals()) > 3
    return made


def test_files_that_are_pruned_under_a_rebuild(lab: Lab) -> None:
    with verified(lab):
        instance = lab.open()

        def pruned(*args: Any, **options: Any) -> list[RebuildResult]:
            # The journal was checked, and is complete; none of it was folded yet.
            assert prune_files(instance, KeepRule(keep_size=1)).removed
            return rebuild_stores(*args, **options)

        with pytest.raises(MissingError) as caught:
            replay_topics(instance, instance.topics, ReplayOptions(rebuild=True), fold=pruned)
        assert caught.value.code == "SOW-JRN-063"
        assert len(lab.query("t")) == 120
        # The next rebuild finds at its start that the journal is incomplete.
        with pytest.raises(RefusedError) as refused:
            replay_topics(instance, instance.topics, ReplayOptions(rebuild=True))
        assert refused.value.code == "SOW-RPL-002"
        assert len(lab.query("t")) == 120


def _missing_store(lab: Lab) -> object:
    lab.forget("t")
    return lab.query("t")


def _past(lab: Lab) -> object:
    instance = lab.open()
    with closing(past.open_past_source(instance, instance.topic("t").config, START)) as source:
        return [key for keys, _ in source.read_batches(9) for key in keys]


def _of_journal(lab: Lab) -> object:
    instance = lab.open()
    return read_key_versions(instance, resolve_targets(instance, "t")[0], ("1",), journal=True)


def _bisected(lab: Lab) -> object:
    return bisect_journal(lab.open(), "t", BisectOptions(filter="/id = 110"))


@pytest.mark.parametrize(
    ("place", "name", "ask"),
    [
        (recovery, "has_all_entries", _missing_store),
        (past, "has_all_entries", _past),
        (Journal, "covers_topic", _of_journal),
        (Journal, "covers_topic", _bisected),
    ],
    ids=["missing store", "past state", "history of the journal", "bisect"],
)
def test_files_that_go_behind_the_question_whether_all_are_there(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, ask: Callable[[Lab], object]
) -> None:
    # The past of a topic is queried by time: the last entry has a later one.
    lab.clock.tick(5)
    lab.publish("t", message(id=1, late=True))
    asked = getattr(place, name)

    def answered(*args: Any) -> bool:
        found: bool = asked(*args)
        # The result was valid until here.
        if len(lab.journals()) > 2:
            for path in lab.journals()[:-1]:
                path.unlink()
        return found

    monkeypatch.setattr(place, name, answered)
    with pytest.raises(MissingError) as caught:
        ask(lab)
    assert caught.value.code == "SOW-JRN-063"


def test_files_that_go_while_a_reader_reads_what_its_store_lacks(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay_topics(lab.open(), lab.open().topics, ReplayOptions(until_txid=30, into=str(tmp_path / "behind")))
    (behind,) = (tmp_path / "behind").rglob("*.sow")
    put_back(lab, "t", behind)
    assert len(lab.query("t")) == 120
    asked = current.check_position

    def answered(*args: Any) -> int:
        found = asked(*args)
        for path in lab.journals()[:-1]:
            path.unlink()
        return found

    monkeypatch.setattr(current, "check_position", answered)
    # The reader retries, and the remaining files cannot explain the position of the store.
    with pytest.raises(DamageError) as caught:
        lab.query("t")
    assert caught.value.code == STORE_AHEAD_OF_JOURNAL
    assert "older journal files" in (caught.value.hint or "")


def test_files_that_nobody_asks_for_may_go(lab: Lab) -> None:
    first, *_, last = lab.journals()
    with Journal.open(last.parent, "test") as log:
        txid = log.read_last_txid()
        log.require_files_after(txid - 1)
        first.unlink()
        assert [block.last_txid for block in log.iter_blocks(after=txid - 1)] == [txid]

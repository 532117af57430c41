"""The plan of a past state: one decision (``plan_past_state``) for live reads and for tasks on Spark."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from sowctl.engine.sources.current import open_current_source
from sowctl.engine.sources.past import PastStatePlan, StateOrigin, open_past_source, plan_past_state
from sowctl.errors import MissingError
from sowctl.store.meta import StoreMeta
from sowctl.values.times import format_time, parse_time
from tests.support.instances import START, Lab, config_xml, message, topic_xml

SECOND = 1_000_000
PAST = "<History><Window>1h</Window><Granularity>1us</Granularity></History>"


def stocked(directory: Path, more: str = "", *, file: str | None = "sow/%n.sow", journalled: bool = True) -> Lab:
    """A lab with two messages in each of six seconds."""
    lab = Lab(directory, config_xml(topic_xml("x", more, file=file), ("x",) if journalled else ()))
    for second in range(6):
        lab.publish("x", message(id=second), message(id=second + 100))
        lab.clock.tick(1)
    return lab


def way(lab: Lab, at: int) -> PastStatePlan:
    instance = lab.open()
    with ExitStack() as stack:
        return plan_past_state(instance, instance.topic("x").config, at, stack)


def keys_at(lab: Lab, at: int) -> list[bytes]:
    instance = lab.open()
    with closing(open_past_source(instance, instance.topic("x").config, at)) as source:
        return [key for keys, _ in source.read_batches(3) for key in keys]


def test_the_present_where_nothing_has_changed_since(tmp_path: Path) -> None:
    lab = stocked(tmp_path)
    last = START + 5 * SECOND
    for at in (last, last + 1, last + 100 * SECOND):
        found = way(lab, at)
        assert (found.means, found.clock) == (StateOrigin.PRESENT, min(at, lab.clock()))
        assert found.current.path is not None
    assert len(keys_at(lab, last)) == 12


def test_a_fold_of_the_whole_journal_for_a_store(tmp_path: Path) -> None:
    lab = stocked(tmp_path)
    at = START + 2 * SECOND
    found = way(lab, at)
    assert (found.means, found.after, found.at, found.clock) == (StateOrigin.FOLD, 0, at, at)
    assert len(keys_at(lab, at)) == 6 and keys_at(lab, START - 1) == []


@pytest.mark.parametrize(("point", "after"), [("epoch", 0), ("now", 12), (format_time(START + 2_500_000), 6)])
def test_a_fold_behind_the_recovery_point_of_a_transient_topic(tmp_path: Path, point: str, after: int) -> None:
    """All states of such a topic begin there: records before it appear neither in the present nor in the past."""
    more = f"<Durability>transient</Durability><RecoveryPoint>{point}</RecoveryPoint>"
    lab = stocked(tmp_path, more, file=None)
    at = START + 4 * SECOND
    if point == "now":
        assert keys_at(lab, at) == []
        return
    found = way(lab, at)
    assert (found.means, found.after) == (StateOrigin.FOLD, after)
    assert len(keys_at(lab, at)) == 10 - after
    assert set(keys_at(lab, at)) <= set(keys_at(lab, lab.clock()))


def test_retained_versions_within_the_window_and_nothing_before(tmp_path: Path) -> None:
    lab = stocked(tmp_path, PAST)
    at = START + 2 * SECOND
    assert (way(lab, at).means, len(keys_at(lab, at))) == (StateOrigin.VERSIONS, 6)
    lab.clock.tick(2 * 3600)
    assert (way(lab, at).means, keys_at(lab, at)) == (StateOrigin.EMPTY, [])
    epoch = way(lab, 0)
    assert (epoch.means, epoch.at) == (StateOrigin.VERSIONS, lab.clock() - 3600 * SECOND)


def test_pieces_where_older_journals_are_gone(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("x"), ("x",)), journal_size=4096)
    for number in range(200):
        lab.publish("x", message(id=number, pad="x" * 200))
        lab.clock.tick(1)
    journals = lab.journals()
    assert len(journals) > 3
    journals[0].unlink()
    at = START + 150 * SECOND
    assert way(lab, at).means is StateOrigin.PIECES
    found = keys_at(lab, at)
    assert found == sorted(found) and len(found) == 151
    with pytest.raises(MissingError) as caught:
        keys_at(lab, START + SECOND)
    assert caught.value.code == "SOW-ENG-050"
    assert START + SECOND < parse_time(caught.value.facts["first_instant"], lambda: at) <= at


def test_an_entry_behind_an_expired_record_proves_no_earlier_state(tmp_path: Path) -> None:
    topics = topic_xml("x", "<Expiration>20s</Expiration>") + topic_xml("y")
    lab = Lab(tmp_path, config_xml(topics, ("x", "y")), journal_size=600)
    lab.publish("x", message(id=1))
    at, last = lab.clock(), 1
    while len(lab.journals()) < 2:
        lab.publish("y", message(id=last))
        last += 1
    lab.clock.tick(60)
    lab.publish("x", message(id=1, v="later"))
    assert lab.query("x", at=at) == lab.query("x", at=str(last)) == [message(id=1)]
    lab.journals()[0].unlink()
    # The first record had expired, so the second one is an insert, too.
    for instant in (at, str(last)):
        with pytest.raises(MissingError) as caught:
            lab.query("x", at=instant)
        assert caught.value.code == "SOW-ENG-050"
    assert lab.query("x", at=str(last + 1)) == lab.query("x") == [message(id=1, v="later")]


def test_an_entry_of_a_later_time_than_now_lets_no_record_expire(tmp_path: Path) -> None:
    topics = topic_xml("x", "<Expiration>20s</Expiration>") + topic_xml("y")
    lab = Lab(tmp_path, config_xml(topics, ("x", "y")))
    lab.publish("x", message(id=1))
    lab.publish("y", message(id=1), timestamp=format_time(lab.clock() + 60 * SECOND))
    assert lab.query("x", at="2") == [message(id=1)]
    # A later entry changes the kind of plan.
    lab.publish("x", message(id=2))
    assert way(lab, lab.clock() - 1).means is StateOrigin.FOLD
    assert lab.query("x", at="2") == [message(id=1)]
    (blame,) = lab.open().topic("x").blame("1", at="2")
    assert blame.gone is None


def test_what_cannot_be_told_names_the_first_instant_that_can(tmp_path: Path) -> None:
    lab = stocked(tmp_path, journalled=False)
    with pytest.raises(MissingError) as caught:
        way(lab, START + SECOND)
    assert caught.value.code == "SOW-ENG-050" and format_time(START + 5 * SECOND) in str(caught.value.hint)
    assert len(keys_at(lab, START + 5 * SECOND)) == 12


def test_the_journal_is_read_up_to_a_txid(tmp_path: Path) -> None:
    """Tasks that read one planned state pass the last txid of the plan; later entries are not part of it."""
    lab = stocked(tmp_path)
    behind = tmp_path / "behind"
    shutil.copy(lab.store("x"), behind)
    lab.publish("x", message(id=6), message(id=0, again=True))
    lab.publish("x", message(id=7))
    shutil.copy(behind, lab.store("x"))
    instance = lab.open()
    topic = instance.topic("x").config
    for until, count in ((12, 12), (13, 13), (14, 13), (15, 14), (None, 14)):
        seen: list[StoreMeta] = []
        with closing(open_current_source(instance, topic, until=until, admit=seen.append)) as source:
            assert sum(len(keys) for keys, _ in source.read_batches(5)) == count
            assert [meta.applied for meta in seen] == [12]

"""journal tail: the last entries of topics, found from the end, and entries appended meanwhile."""

from __future__ import annotations

import random

import pytest
import zstandard

from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.engine.verbs.upkeep.journal_tail import follow_journal, read_journal_tail
from sowctl.errors import ConfigError, DamageError, MissingError
from sowctl.journal.limits import JOURNAL_LIMITS
from tests.engine.conftest import MakeLab
from tests.support.instances import Lab, config_xml, message, topic_xml

XML = config_xml(topic_xml("t") + topic_xml("u") + topic_xml("all", "<Pattern>^news/</Pattern>"), ("t", "u", "all"))


@pytest.fixture
def mixed(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch, seed: int) -> Lab:
    """A hundred entries of three topics and two logical ones, in several files and small blocks."""
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 4)
    monkeypatch.setattr(JOURNAL_LIMITS, "first_tail_txids", 8)
    lab = make_lab(XML)
    lab.journal_size = 3000
    rng = random.Random(seed)
    lab.publish("u", message(id=0))
    while sum(1 for batch in dump_entries(lab.open(), EntryFilter()) for _ in batch.records) < 100:
        name = rng.choice(["t", "t", "t", "news/a", "news/b"])
        lab.publish(name, *(message(id=rng.randrange(9)) for _ in range(rng.randrange(1, 9))))
    return lab


def everything(lab: Lab, *topic_names: str) -> list[int]:
    """Return the txids of the entries of topics, physical or logical, as a dump has them."""
    records = [record for batch in dump_entries(lab.open(), EntryFilter()) for record in batch.records]
    names = {topic.encode() for topic in topic_names}
    return [
        record.txid
        for record in records
        if not topic_names or record.entry.topic[0].encode() in names or record.entry.logical_topic in names
    ]


def tailed(lab: Lab, *topic_names: str, count: int) -> list[int]:
    return [record.txid for batch in read_journal_tail(lab.open(), topic_names, count) for record in batch.records]


def test_the_last_entries_are_those_of_a_dump(mixed: Lab) -> None:
    first = mixed.journals()[0]
    first.with_name(first.name + ".zst").write_bytes(zstandard.ZstdCompressor().compress(first.read_bytes()))
    first.unlink()
    for topic_names in ((), ("t",), ("u",), ("news/a",), ("all",), ("news/b", "u")):
        whole = everything(mixed, *topic_names)
        for count in (0, 1, 3, 7, 20, 99, 1000):
            assert tailed(mixed, *topic_names, count=count) == (whole[-count:] if count else []), (topic_names, count)


def test_no_journal_and_no_topic_are_errors(make_lab: MakeLab) -> None:
    lab = make_lab(XML)
    with pytest.raises(MissingError):
        tailed(lab, count=1)
    lab.publish("t", message(id=1))
    with pytest.raises(MissingError):
        tailed(lab, "nope", count=1)
    with pytest.raises(ConfigError):
        list(follow_journal(make_lab(config_xml(topic_xml("t"), ()), "unlogged").open(), (), 1))


class Enough(Exception):
    """End an endless iteration."""


def test_what_is_appended_is_followed(mixed: Lab) -> None:
    """Before each wait another batch is published; meanwhile the files are rotated, compressed and moved."""
    rounds = [("t", 3), ("u", 2), ("t", 8), ("news/a", 1), ("t", 9), ("t", 9)]
    before, left = everything(mixed, "t"), list(rounds)

    def waiting() -> None:
        if not left:
            raise Enough
        name, count = left.pop(0)
        mixed.publish(name, *(message(id=number, text="x" * 90) for number in range(count)))
        for path in mixed.journals()[:-1:2]:
            path.with_name(path.name + ".zst").write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
            path.unlink()

    files = len(mixed.journals())
    found: list[int] = []
    with pytest.raises(Enough):
        for batch in follow_journal(mixed.open(), ("t",), 5, waiting=waiting):
            found += [record.txid for record in batch.records]
    whole = everything(mixed, "t")
    assert found == whole[len(before) - 5 :]
    assert len(whole) == len(before) + 29
    assert len(list((mixed.directory / "journal").glob("*.journal*"))) > files


def test_a_journal_that_begins_later_is_followed(make_lab: MakeLab) -> None:
    lab = make_lab(XML)
    left = [1, 2]

    def waiting() -> None:
        if not left:
            raise Enough
        lab.publish("t", message(id=left.pop(0)))

    found: list[int] = []
    with pytest.raises(Enough):
        for batch in follow_journal(lab.open(), (), 5, waiting=waiting):
            found += [record.txid for record in batch.records]
    assert found == [1, 2]


def test_another_journal_in_its_place_ends_it(make_lab: MakeLab) -> None:
    lab, other = make_lab(XML), make_lab(XML, "other")
    other._random.calls = 100  # a lineage of its own
    times = []
    lab.publish("t", message(id=1))
    for number in range(5):
        other.publish("t", message(id=number))

    def waiting() -> None:
        if times:
            raise Enough
        times.append(1)
        for path in (*lab.journals(), lab.directory / "journal" / "test.topics"):
            path.unlink()
        lab.forget("t")
        for path in (other.directory / "journal").iterdir():
            (lab.directory / "journal" / path.name).write_bytes(path.read_bytes())

    with pytest.raises(DamageError):
        list(follow_journal(lab.open(), (), 1, waiting=waiting))

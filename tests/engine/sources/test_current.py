"""A store with a tail of the journal returns the same records as the store with the tail applied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

from sowctl.engine.sources.current import CurrentSource, open_current_source
from sowctl.identity.keyspace import compute_part_bounds
from tests.support.instances import Lab, keep_store, message, put_back

LONG = 1000
"""Seconds: longer than the test."""
Rows = list[tuple[bytes, bytes]]


@contextmanager
def _opened(lab: Lab, topic: str) -> Iterator[CurrentSource]:
    instance = lab.open()
    with open_current_source(instance, instance.topic(topic).config) as source:
        yield source


def _rows(source: CurrentSource, size: int, low: bytes | None = None, high: bytes | None = None) -> Rows:
    return [row for batch in source.read_part(size, low, high) for row in zip(*batch, strict=True)]


def _life(lab: Lab, topic: str, place: Path) -> Rows:
    """Publish updates, deletions and new records after a store's position; return the records with all of it applied.

    In a topic with Expiration the first records expire; an update gives some of them another lifetime.
    """
    lab.publish(topic, *(message(id=n, v="first") for n in range(60)))
    lab.publish(topic, *(message(id=n, v="stays") for n in range(60, 90)), expiration=LONG)
    keep_store(lab, topic, place)
    lab.publish(topic, *(message(id=n, v="again") for n in range(0, 120, 7)), expiration=LONG)
    lab.publish(topic, *(message(id=n, v="brief") for n in range(0, 120, 8)))
    lab.open().topic(topic).delete(filter="/id % 10 = 9")
    lab.clock.tick(40)
    with _opened(lab, topic) as source:
        assert source.memtable is None
        applied = _rows(source, 1000)
        assert source.count_visible() == len(applied)
    put_back(lab, topic, place)
    return applied


@pytest.mark.parametrize("topic", ["t", "quotes"])
def test_a_tail_counts_as_if_it_were_applied(lab: Lab, tmp_path: Path, topic: str) -> None:
    applied = _life(lab, topic, tmp_path / "kept")
    stored = dict(applied)
    with _opened(lab, topic) as source:
        assert source.memtable is not None
        changed = sorted(source.memtable.current_changes)
        known = sorted(set(changed) | {key for keys, _ in source.snapshot.scan_records() for key in keys})
        assert not set(changed) <= set(stored) and not set(known) <= set(changed)
        assert _rows(source, 7) == applied
        assert source.count_visible() == len(applied)
        fresh = {key: value for key, value in source.memtable.current_changes.items() if value is not None}
        everything = len(set(known) - set(changed)) + len(fresh)
        assert source.count_by_lifetime() == (len(applied), everything - len(applied))
        # all keys that ever existed: superseded, deleted and expired ones are not found
        for keys in (known, known[::3], changed, [b"\0" * 8]):
            wanted = [(key, stored[key]) for key in keys if key in stored]
            assert list(zip(*source.find_records(keys[::-1] + keys), strict=True)) == wanted
            assert list(zip(*source.find_many_records(keys), strict=True)) == wanted
    lab.open().topic(topic).replay()


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_part_shows_its_own_share_of_the_tail(lab: Lab, tmp_path: Path, count: int) -> None:
    applied = _life(lab, "t", tmp_path / "kept")
    with _opened(lab, "t") as source:
        assert source.memtable is not None
        parts = [_rows(source, 5, low, high) for low, high in compute_part_bounds(count)]
        assert list(chain(*parts)) == applied
        # A key at which a part begins belongs only to that part, also a key of the tail.
        place = next(
            place for place, (key, _) in enumerate(applied) if place > 20 and key in source.memtable.current_changes
        )
        edge = applied[place][0]
        assert _rows(source, 5, None, edge) == applied[:place]
        assert _rows(source, 5, edge, None) == applied[place:]
    lab.open().topic("t").replay()

"""Rebuilding a store from its journal, against loading SQLite in one transaction."""

from __future__ import annotations

import statistics

from tests.bench.contents import of_output
from tests.bench.place import PEERS, Place, same
from tests.bench.rounds import Item, judge, output_of, process, race, ratios, show

TITLE = "replay: the journal into a new store, until the process has ended"


def run(place: Place, rounds: int) -> None:
    """The store is removed before every run; what is rebuilt is compared with the input."""
    source, wanted, instance = place.input(), place.reference(), place.loaded()
    database = str(place.root / "replay-sqlite.db")
    ours, peer = "sowctl replay", "sqlite, one transaction"
    items = [
        Item(ours, lambda: process(instance.command("replay", "orders")), lambda: instance.clear("sow")),
        Item(peer, lambda: process([*PEERS, "sqlite-one", database], feed=source)),
    ]
    race(items, 1)
    same(of_output(output_of(instance.command("query", "orders", "--format", "raw"))), wanted, ours)
    same(of_output(output_of([*PEERS, "sqlite-all", database])), wanted, peer)
    found = race(items, rounds)
    show(found, base=ours, count=place.count, unit="entries")
    judge("entries/s", place.count / statistics.median(run.wall for run in found[ours]), 600_000)
    judge(f"times as fast as {peer}", statistics.median(ratios(found, peer, ours)), 4.0)
    for path in place.root.glob("replay-sqlite.db*"):
        path.unlink()

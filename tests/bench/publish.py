"""Publishing from a pipe, checked and synced every 1,000 messages, against SQLite and DuckDB reading the same pipe."""

from __future__ import annotations

from importlib.util import find_spec

from tests.bench.contents import of_output
from tests.bench.place import PEERS, Place, same
from tests.bench.rounds import Item, judge, output_of, process, race, ratios, show

TITLE = "publish: a pipe into an empty topic, until the process has ended"


def run(place: Place, rounds: int) -> None:
    """Load the same input with every engine, compare what they hold, then take their times."""
    source, wanted = place.input(), place.reference()
    instance = place.instance("publish")
    ours = "sowctl, sync per 1,000"
    items = [
        Item(ours, lambda: process(instance.publish(), feed=source), lambda: instance.clear("sow", "journal")),
    ]
    kinds = {"sqlite-batches": "sqlite, commit per 1,000", "sqlite-one": "sqlite, one transaction"}
    if find_spec("duckdb") is not None:
        kinds["duckdb"] = "duckdb, one statement, all cores"
    checks = [(ours, instance.command("query", "orders", "--format", "raw"))]
    for kind, name in kinds.items():
        path = str(place.root / f"publish-{kind}.db")
        items.append(Item(name, lambda kind=kind, path=path: process([*PEERS, kind, path], feed=source)))  # type: ignore[misc]
        checks.append((name, [*PEERS, f"{kind.partition('-')[0]}-all", path]))
    race(items, 1)
    for name, argv in checks:
        same(of_output(output_of(argv)), wanted, name)
    found = race(items, rounds)
    show(found, base=ours, count=place.count)
    for kind, target in (("sqlite-batches", 2.0), ("sqlite-one", 1.0)):
        name = kinds[kind]
        judge(f"times as fast as {name}", sorted(ratios(found, name, ours))[rounds // 2], target)
    for kind in kinds:
        for left in place.root.glob(f"publish-{kind}.db*"):
            left.unlink()
    instance.clear("sow", "journal")

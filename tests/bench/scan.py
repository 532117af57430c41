"""A filter that keeps 2.5 % of the records, without an index: in a process that runs already, and from a start."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from importlib.util import find_spec

import sowctl
from tests.bench import peers
from tests.bench.contents import of_output
from tests.bench.place import PEERS, Place, same
from tests.bench.rounds import Item, Wrong, judge, output_of, process, race, ratios, show, timed

TITLE = "scan: /price > 90 AND /region = 'EMEA', payloads of what matches"
FILTER = "/price > 90 AND /region = 'EMEA'"
OURS, SQLITE, DUCKDB = "sowctl", "sqlite json_extract", "duckdb, JSON text, all cores"


def run(place: Place, rounds: int) -> None:
    """Loads once, compares the results, then times both ways."""
    instance = place.loaded()
    kinds = {SQLITE: "sqlite-one"} | ({DUCKDB: "duckdb"} if find_spec("duckdb") is not None else {})
    paths = {name: str(place.database(kind)) for name, kind in kinds.items()}
    commands = {OURS: instance.command("query", "orders", FILTER, "--no-index")}
    for name, path in paths.items():
        commands[name] = [*PEERS, f"{kinds[name].partition('-')[0]}-filter", path]
    wanted = of_output(output_of(commands[OURS]))
    for name, argv in commands.items():
        same(of_output(output_of(argv)), wanted, name)
    print(f"  {wanted.records:,} of {place.reference().records:,} records match")
    rounds = max(rounds, 7)
    print("  whole process:")
    found = race([Item(name, lambda argv=argv: process(argv)) for name, argv in commands.items()], rounds)  # type: ignore[misc]
    show(found, base=SQLITE)
    judge(f"time / {SQLITE}", statistics.median(ratios(found, OURS, SQLITE)), 1.0, most=True)

    print("  in-process:")
    opened = sowctl.open(instance.config)
    topic = opened.topic("orders")
    calls: dict[str, Callable[[], list[bytes]]] = {
        OURS: lambda: [record.payload for batch in topic.query(FILTER, index_from=None) for record in batch.records]
    }
    database = peers.sqlite_connect(paths[SQLITE])
    calls[SQLITE] = lambda: [row[0].encode() for row in database.execute(peers.SQLITE_FILTER)]
    if DUCKDB in paths:
        other = peers.duckdb_connect(paths[DUCKDB])
        calls[DUCKDB] = lambda: [row[0].encode() for row in other.execute(peers.DUCKDB_FILTER).fetchall()]
    results = {name: sorted(call()) for name, call in calls.items()}
    if any(result != results[OURS] for result in results.values()):
        raise Wrong("the results differ: nothing is ranked")
    found = race([Item(name, lambda call=call: timed(call)) for name, call in calls.items()], rounds)  # type: ignore[misc]
    show(found, base=SQLITE)
    judge(f"time / {SQLITE}", statistics.median(ratios(found, OURS, SQLITE)), 1.0, most=True)

"""Exchange without Spark: records to Parquet beside DuckDB's COPY and the pipeline, SQL beside DuckDB on Parquet.

Whole processes, and for SQL also the statement alone in a process that has asked before. What the files hold and what
the statements say is compared before anything is ranked. Wall time and CPU time are both shown; the judgements are by
CPU time, which counts what others on the machine do least.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.bench.place import Instance, Place
from tests.bench.rounds import Item, Sample, Wrong, judge, output_of, process, race, show, timed

TITLE = "exchange: Parquet and SQL beside DuckDB and the pipeline"
ASKED = "SELECT region, count(*) AS n, sum(qty) AS total FROM {} GROUP BY 1 ORDER BY 1"
_COPY = """
import duckdb, sys
rows = "read_json('" + sys.argv[1] + "', format='newline_delimited')"
duckdb.connect().execute("copy (from " + rows + ") to '" + sys.argv[2] + "'")
"""
_ASK = "import duckdb, sys; print(duckdb.connect().execute(sys.argv[1]).fetchall())"


def run(place: Place, rounds: int) -> None:
    """Both comparisons."""
    instance = place.loaded()
    copied, exported = place.root / f"copied-{place.count}.parquet", place.root / f"exported-{place.count}.parquet"
    # DuckDB reads the records that the store holds: as many rows for both.
    lines = place.root / f"exported-{place.count}.ndjson"
    if not lines.exists():
        subprocess.run(instance.command("export", "orders", str(lines)), check=True, capture_output=True)
    data = place.root / f"exported-{place.count}.dir"
    pipeline = instance.command(
        "pipeline", "export", "orders", "--output", str(data), "--force", "--master", "local[2]"
    )
    export = instance.command("export", "orders", str(exported), "--overwrite")
    copy = [sys.executable, "-c", _COPY, str(lines), str(copied)]
    process(export)
    process(copy)
    rows = f"SELECT count(*), sum(qty), round(sum(price), 3), min(note), count(DISTINCT trader.name) FROM '{exported}'"
    if _answer(rows) != _answer(rows.replace(str(exported), str(copied))):
        raise Wrong("the two Parquet files differ: nothing is ranked")
    items = [Item("DuckDB COPY", lambda: process(copy)), Item("sowctl export", lambda: process(export))]
    times = race([*items, Item("pipeline export, local[2]", lambda: process(pipeline))], rounds)
    show(times, base="DuckDB COPY", count=place.keys, unit="records")
    judge("export: CPU time / DuckDB COPY", _cpu(times, "sowctl export") / _cpu(times, "DuckDB COPY"), 2.0, most=True)
    judge("pipeline export: CPU / export", _cpu(times, "pipeline export, local[2]") / _cpu(times, "sowctl export"), 3.0)
    _sql(instance, str(copied), rounds)


def _sql(instance: Instance, parquet: str, rounds: int) -> None:
    """The same statement over indexes and over Parquet."""
    from sowctl.engine.api import InstanceHandle
    from sowctl.engine.tables.database import Database

    ours = instance.command("sql", ASKED.format("orders"))
    theirs = [sys.executable, "-c", _ASK, ASKED.format(f"'{parquet}'")]
    # The first two processes build the indexes.
    for _ in range(2):
        process(ours)
    opened = InstanceHandle.open(instance.config)

    def asked() -> Any:
        with Database(opened) as database:
            return [one.open_reader().read_all().to_pylist() for one in database.run_statements(ASKED.format("orders"))]

    def duckdb() -> Any:
        import duckdb

        with duckdb.connect() as connection:
            return connection.execute(ASKED.format(f"'{parquet}'")).fetchall()

    if [tuple(row.values()) for row in asked()[0]] != duckdb():
        raise Wrong("the two answers differ: nothing is ranked")
    found = race(
        [Item("DuckDB, Parquet", lambda: process(theirs)), Item("sowctl sql", lambda: process(ours))], 3 * rounds
    )
    show(found, base="DuckDB, Parquet")
    judge(
        "sql, whole process: CPU / DuckDB", _cpu(found, "sowctl sql") / _cpu(found, "DuckDB, Parquet"), 2.0, most=True
    )

    def many(ask: Any) -> Sample:
        return timed(lambda: [ask() for _ in range(20)])

    again = race([Item("DuckDB, again", lambda: many(duckdb)), Item("sql, again", lambda: many(asked))], rounds)
    show(again, base="DuckDB, again", count=20, unit="statements")
    judge("sql, asked again: CPU / DuckDB", _cpu(again, "sql, again") / _cpu(again, "DuckDB, again"), 2.0, most=True)


def _answer(text: str) -> str:
    return output_of([sys.executable, "-c", _ASK, text]).decode()


def _cpu(found: dict[str, list[Sample]], name: str) -> float:
    runs: Sequence[Sample] = found[name]
    return statistics.median(run.cpu for run in runs)

"""Reading journals into Spark, against ``spark.read.json`` with an explicit schema on the same messages as NDJSON.

One warm session on two cores; every reading is written to Spark's sink ``noop``, so that no column is left out. What
both read is compared first, by sums over the fields. The same data as NDJSON holds are the messages alone, as structs;
with the nine columns of what else a journal knows of an entry, it is more than the other side reads. CPU time is that
of the virtual machine and its Python workers.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.place import Instance, Place
from tests.bench.rounds import Item, Sample, Wrong, judge, race, ratios, show

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TITLE = "spark: entries of a journal into a DataFrame"
FIELDS = (
    "orderId BIGINT, seq BIGINT, symbol STRING, region STRING, price DOUBLE, qty BIGINT, desk STRING, "
    "trader STRUCT<id: BIGINT, name: STRING>, note STRING"
)
SUMS = (
    "count(*)",
    "sum(orderId)",
    "sum(qty)",
    "sum(CAST(round(price * 10000) AS BIGINT))",
    "sum(trader.id)",
    "count(DISTINCT note)",
)
SETTINGS = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "2"}


def run(place: Place, rounds: int, *, big: bool = False) -> None:
    """Both readings of the same messages; with ``big`` of five times as many, too."""
    from sowctl.spark.sessions import open_session

    with open_session("local[2]", environment=os.environ, conf=SETTINGS, app="sowctl benchmark") as spark:
        for count in (place.count, 5 * place.count) if big else (place.count,):
            compare(spark, Place(place.root, count), rounds)


def compare(spark: SparkSession, place: Place, rounds: int) -> None:
    """One size."""
    instance, lines = place.loaded(), place.input()
    print(f"  {place.count:,} entries")
    readings = {
        "sow-journal, messages as structs": lambda: journal(spark, instance, "struct", "payload"),
        "sow-journal, all columns, messages as bytes": lambda: journal(spark, instance, "bytes"),
        "sow-journal, all columns, messages as structs": lambda: journal(spark, instance, "struct"),
        "spark.read.json, explicit schema": lambda: spark.read.schema(FIELDS).json(str(lines)),
    }
    alone, ours, structs, peer = readings
    wanted = sums(readings[peer]())
    parsed = f"from_json(CAST(payload AS STRING), '{FIELDS}') AS payload"
    frames = {name: readings[name]() for name in (alone, ours, structs)}
    frames[ours] = frames[ours].selectExpr(parsed)
    for name, frame in frames.items():
        if (found := sums(frame.selectExpr("payload.*"))) != wanted:
            raise Wrong(f"{name} holds {found}, not {wanted}: nothing is ranked")
    items = [Item(name, lambda read=read: timed(spark, read())) for name, read in readings.items()]  # type: ignore[misc]
    race(items, 2)  # the virtual machine compiles what is hot
    times = race(items, rounds)
    show(times, base=peer, count=place.count, unit="entries")
    for name in (alone, ours):  # the third reads nine columns more than the other side
        judge(f"{name}: times as fast as {peer}", statistics.median(ratios(times, peer, name)), 1.0)


def journal(spark: SparkSession, instance: Instance, payload: str, columns: str | None = None) -> DataFrame:
    """The journal of an instance, every column of it or some; messages as bytes or as structs of the same fields."""
    reader = spark.read.format("sow-journal").option("config", str(instance.config))
    if columns is not None:
        reader = reader.option("columns", columns)
    return (reader.option("payloadSchema", FIELDS) if payload == "struct" else reader).load()


def sums(frame: DataFrame) -> tuple[Any, ...]:
    """What must be the same."""
    return tuple(frame.selectExpr(*SUMS).collect()[0])


def timed(spark: SparkSession, frame: DataFrame) -> Sample:
    """Read everything once."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    before, begin = cpu_of(gateway.proc.pid), time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return Sample(time.perf_counter() - begin, cpu_of(gateway.proc.pid) - before)


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and all below it, ended ones that were waited for included."""
    ticks, parents = 0, {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            facts = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.parent.name)] = int(facts[1]), sum(map(int, facts[11:15]))
    for one, (_, spent) in parents.items():
        above = one
        while above != pid and above in parents:
            above = parents[above][0]
        ticks += spent if above == pid else 0
    return ticks / os.sysconf("SC_CLK_TCK")

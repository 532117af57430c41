"""Reading journals into Spark, beside ``spark.read.json`` with a schema, text and Parquet of the same messages.

One warm session on two cores. Four questions, each asked of all sources in turn: ``count()``; every field, written to
Spark's sink ``noop`` so that no column is left out; a sum by group; how many messages have one value. What the sources
hold is compared first, by sums over the fields. Figures are CPU seconds of the virtual machine and its Python workers,
medians of the rounds behind two that warm it up; ratios are of those.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.place import Instance, Place
from tests.bench.rounds import Item, Sample, Wrong, judge, race, show

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
KEY = 10_000_005
GOALS: dict[str, list[tuple[str, str, float]]] = {
    "count()": [("journal", "json", 0.8)],
    "all fields": [("journal, struct", "json", 0.8)],
    "group by": [
        ("journal, all declared", "json", 0.8),
        ("journal, two declared", "json", 0.8),
        ("journal, two declared", "parquet", 2.5),
    ],
    "equality": [
        ("journal, Spark's filter", "json", 1.0),
        ("journal, filter=", "json", 1.0),
        ("journal, filter=", "journal, Spark's filter", 1.0),
    ],
}
"""By question: what is to take at most so many times as long as another."""
SETTINGS = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "2"}


def run(place: Place, rounds: int, *, big: bool = False) -> None:
    """All questions; with ``big`` of five times as many messages, too."""
    from sowctl.spark.sessions import open_session

    with open_session("local[2]", environment=os.environ, conf=SETTINGS, app="sowctl benchmark") as spark:
        for count in (place.count, 5 * place.count) if big else (place.count,):
            compare(spark, Place(place.root, count), rounds)


def compare(spark: SparkSession, place: Place, rounds: int) -> None:
    """One size."""
    instance, lines = place.loaded(), str(place.input())
    table = str(place.root / f"orders-{place.count}.parquet")
    if not Path(table).exists():
        spark.read.schema(FIELDS).json(lines).coalesce(2).write.parquet(table)
    print(f"  {place.count:,} entries")

    def sow(fields: str | None = FIELDS, **options: str) -> DataFrame:
        return journal(spark, instance, fields, "payload", **options)

    def json() -> DataFrame:
        return spark.read.schema(FIELDS).json(lines)

    def parquet() -> DataFrame:
        return spark.read.parquet(table)

    parsed = f"from_json(CAST(payload AS STRING), '{FIELDS}') AS payload"
    wanted = sums(json())
    for name, frame in (("shapes", sow()), ("from_json", sow(None).selectExpr(parsed)), ("parquet", parquet())):
        if (found := sums(frame.selectExpr("payload.*") if name != "parquet" else frame)) != wanted:
            raise Wrong(f"{name} holds {found}, not {wanted}: nothing is ranked")

    questions: dict[str, dict[str, Callable[[], object]]] = {
        "count()": {
            "json": lambda: json().count(),
            "text": lambda: spark.read.text(lines).count(),
            "parquet": lambda: parquet().count(),
            "journal": lambda: journal(spark, instance).count(),
        },
        "all fields": {
            "json": lambda: write(json()),
            "text": lambda: write(spark.read.text(lines)),
            "parquet": lambda: write(parquet()),
            "journal, struct": lambda: write(sow()),
            "journal, bytes": lambda: write(sow(None)),
            "journal, from_json": lambda: write(sow(None).selectExpr(parsed)),
        },
        "group by": {
            "json": lambda: grouped(json()),
            "parquet": lambda: grouped(parquet()),
            "journal, all declared": lambda: grouped(sow().selectExpr("payload.*")),
            "journal, two declared": lambda: grouped(sow("region STRING, qty BIGINT").selectExpr("payload.*")),
        },
        "equality": {
            "json": lambda: json().where(f"orderId = {KEY}").count(),
            "parquet": lambda: parquet().where(f"orderId = {KEY}").count(),
            "journal, Spark's filter": lambda: sow("orderId BIGINT").where(f"payload.orderId = {KEY}").count(),
            "journal, filter=": lambda: sow("orderId BIGINT", filter=f"/orderId = {KEY}").count(),
        },
    }
    for title, readings in questions.items():
        print(f" {title}")
        items = [Item(name, lambda ask=ask: timed(ask)) for name, ask in readings.items()]  # type: ignore[misc]
        race(items, 2)  # the virtual machine compiles what is hot
        times = race(items, rounds)
        show(times, base="json", count=place.count, unit="entries")
        spent = {name: statistics.median(sample.cpu for sample in found) for name, found in times.items()}
        for name, peer, most in GOALS[title]:
            judge(f"{title}, {name}: CPU / {peer}", spent[name] / spent[peer], most, most=True)


def journal(
    spark: SparkSession, instance: Instance, fields: str | None = None, columns: str | None = None, **options: str
) -> DataFrame:
    """The journal of an instance, every column of it or some; messages as structs of ``fields``, or as bytes."""
    reader = spark.read.format("sow-journal").option("config", str(instance.config)).options(**options)
    if columns is not None:
        reader = reader.option("columns", columns)
    return (reader.option("payloadSchema", fields) if fields is not None else reader).load()


def write(frame: DataFrame) -> None:
    """Every row of it, to a sink that keeps nothing."""
    frame.write.format("noop").mode("overwrite").save()


def grouped(frame: DataFrame) -> list[Any]:
    """A sum for each region."""
    return frame.groupBy("region").sum("qty").collect()


def sums(frame: DataFrame) -> tuple[Any, ...]:
    """What must be the same."""
    return tuple(frame.selectExpr(*SUMS).collect()[0])


def timed(ask: Callable[[], object]) -> Sample:
    """One question, once."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    before, begin = cpu_of(gateway.proc.pid), time.perf_counter()
    ask()
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

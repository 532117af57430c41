"""Writing to topics: equal to a publish by the engine, once, whole or not at all, whatever becomes of tasks."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from sowctl.engine.options import PublishOptions
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.topics.positions import open_log
from sowctl.engine.writing.session import WriteSession
from sowctl.errors import InputError, LimitError, RefusedError, SowError, UsageError
from sowctl.spark import activate_session
from sowctl.spark.errors import translate_errors
from sowctl.spark.options import Options
from sowctl.spark.origin import find_origin
from sowctl.spark.writing.staging import Staging, find_staging, remove_stale_directories
from sowctl.spark.writing.writers import StagedMessage, WriteRequest
from sowctl.values.times import format_time
from tests.support.instances import START, Lab, config_xml, message, topic_xml, verified
from tests.support.processes import kill_tree

ROOT = Path(__file__).parents[2]


def write(lab: Lab, frame: DataFrame, topic: str, mode: str = "append", **options: object) -> None:
    """Write a frame to a topic, at the time of the instance."""
    given = {"config": str(lab.config), "topic": topic, "now": format_time(lab.clock.at)} | options
    with translate_errors():
        frame.write.format("sow").options(**{k: str(v) for k, v in given.items()}).mode(mode).save()


def left(lab: Lab) -> list[Path]:
    """What staging has left behind."""
    return [
        path for path in lab.directory.rglob("*") if path.name.startswith(("write-", "run-")) or "segment" in path.name
    ]


def numbers(spark: SparkSession, count: int, *columns: str) -> DataFrame:
    """Rows with an id in two partitions."""
    return spark.range(0, count, 1, 2).selectExpr("id", *columns)


@pytest.mark.parametrize("topic", ["orders", "loose", "past"])
def test_append_publishes_in_the_order_of_the_rows(lab: Lab, spark: SparkSession, tmp_path: Path, topic: str) -> None:
    frame = numbers(spark, 40, "id % 7 AS v").selectExpr("CAST(to_json(struct(id % 25 AS id, v)) AS BINARY) AS payload")
    twin = Lab(tmp_path / "twin", lab.xml)
    twin.publish(topic, *[message(id=i % 25, v=i % 7) for i in range(40)])
    with verified(lab):
        write(lab, frame, topic)
        assert lab.digest(topic) == twin.digest(topic)
        assert left(lab) == []
    if topic != "loose":
        lab.forget(topic)
        lab.open().topic(topic).replay()
        assert lab.digest(topic) == twin.digest(topic)


def test_columns_are_the_fields_of_a_message(lab: Lab, spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT 1 AS id, struct('ü' AS name, CAST(NULL AS INT) AS none) AS who, array(1, 2) AS list, "
        "map('k', 1.50BD) AS map, TIMESTAMP'2026-01-02 03:04:05.678Z' AS at, DATE'2026-01-02' AS day, true AS yes, "
        "CAST(NULL AS STRING) AS nothing, 5 AS _txid"
    )
    write(lab, frame, "orders")
    assert [json.loads(text) for text in lab.query("orders")] == [
        {
            "id": 1,
            "who": {"name": "ü"},
            "list": [1, 2],
            "map": {"k": 1.5},
            "at": "2026-01-02T03:04:05.678000Z",
            "day": "2026-01-02",
            "yes": True,
        }
    ]


def test_variants_and_bytes_are_written_as_to_json_writes_them(lab: Lab, spark: SparkSession) -> None:
    columns = "1 AS id, parse_json('{\"a\":1.50,\"b\":[null]}') AS v, X'00FF80' AS bin, CAST(0.1 AS FLOAT) AS f"
    write(lab, spark.sql(f"SELECT {columns}, CAST('NaN' AS DOUBLE) AS n"), "orders")
    assert lab.query("orders") == ['{"id":1,"v":{"a":1.50,"b":[null]},"bin":"AP+A","f":0.1,"n":"NaN"}']
    write(lab, spark.sql(f"SELECT struct({columns}) AS payload"), "orders", "overwrite")
    assert lab.query("orders") == ['{"id":1,"v":{"a":1.50,"b":[null]},"bin":"AP+A","f":0.1}']
    for kind in ("VARIANT", "INTERVAL DAY TO SECOND"):
        read = spark.read.format("sow").options(config=str(lab.config), topic="orders")
        with pytest.raises(UsageError, match=rf"\bv\b.* {kind}\b") as caught, translate_errors():
            read.schema(f"payload STRUCT<v: {kind}>").load().collect()
        assert caught.value.code == "SOW-SPK-080"


def test_columns_are_written_to_a_topic_of_xml(tmp_path: Path, spark: SparkSession) -> None:
    xml = topic_xml("orders", key="/order/id").replace(">json<", ">xml<")
    lab = Lab(tmp_path, config_xml(xml, ("orders",)).replace(">json<", ">xml<"))
    frame = spark.sql("SELECT 7 AS id, 'ü<' AS name, CAST(1.50 AS DECIMAL(5,2)) AS price")
    write(lab, frame, "orders")
    expected = {"order": {"id": 7, "name": "ü<", "price": 1.5}}
    assert [record.payload for record in lab.records("orders")] == [
        "<order><id>7</id><name>ü&lt;</name><price>1.50</price></order>".encode()
    ]
    read = spark.read.format("sow").options(config=str(lab.config), topic="orders", columns="payload")
    payload = read.option("payloadSchema", "order STRUCT<id INT, name STRING, price DOUBLE>").load().select("payload.*")
    assert [row.asDict(True) for row in payload.collect()] == [expected]
    write(lab, payload, "orders")
    with pytest.raises(UsageError, match="columns order, other"):
        write(lab, payload.selectExpr("order", "1 AS other"), "orders")


def test_overwrite_replaces_and_delta_merges_and_delete_deletes(lab: Lab, spark: SparkSession) -> None:
    with verified(lab):
        write(lab, numbers(spark, 10, "1 AS v"), "orders")
        write(lab, numbers(spark, 4, "2 AS w"), "orders", operation="delta")
        assert sorted(lab.query("orders", "/id < 5")) == [
            '{"id":0,"v":1,"w":2}',
            '{"id":1,"v":1,"w":2}',
            '{"id":2,"v":1,"w":2}',
            '{"id":3,"v":1,"w":2}',
            '{"id":4,"v":1}',
        ]
        write(lab, numbers(spark, 3), "orders", operation="delete")
        assert len(lab.query("orders")) == 7
        keys = [(Decimal(record.sow_key),) for record in lab.records("orders", "/id > 7")]
        by_key = spark.createDataFrame(keys, "_sow_key DECIMAL(20,0)")
        write(lab, by_key, "orders", operation="delete")
        rest = [message(id=i, v=1) for i in range(4, 8)]
        assert sorted(lab.query("orders")) == [message(id=3, v=1, w=2), *rest]
        write(lab, numbers(spark, 2, "9 AS v").filter("id = 1"), "orders", "overwrite")
        assert lab.query("orders") == ['{"id":1,"v":9}']
        write(lab, spark.range(0).selectExpr("id"), "orders", "overwrite")
        assert lab.query("orders") == []


def test_stamps_and_own_keys_are_kept_where_asked(lab: Lab, spark: SparkSession, tmp_path: Path) -> None:
    lab.publish("chosen", message(a=1), sow_key="k1", expiration=50.0)
    lab.publish("chosen", message(a=2), sow_key="k2")
    twin = Lab(tmp_path / "twin", lab.xml)
    twin.clock.tick(500)
    columns = "payload,_user_key,_timestamp,_expiration,_txid"
    frame = spark.read.format("sow").options(config=str(lab.config), topic="chosen", columns=columns)
    frame = frame.option("now", format_time(lab.clock.at)).load().orderBy("_txid")
    write(twin, frame, "chosen", stamps="keep")
    assert twin.digest("chosen") == lab.digest("chosen")
    write(twin, frame, "chosen")
    assert {record.timestamp for record in twin.records("chosen")} == {START + 500_000_000}


def test_a_bad_message_writes_nothing_unless_it_may_be_skipped(lab: Lab, spark: SparkSession) -> None:
    frame = spark.sql("SELECT IF(id = 13, NULL, id) AS id, 1 AS v FROM range(0, 20, 1, 2)")
    with pytest.raises(InputError, match="/id ") as caught:
        write(lab, frame, "orders")
    assert caught.value.code == "SOW-PUB-002"
    assert not lab.store("orders").exists() or lab.query("orders") == []
    with pytest.raises(LimitError):
        write(lab, frame, "orders", onError="skip", maxErrors=0)
    rejects, report = lab.directory / "rejects", lab.directory / "report"
    write(lab, frame, "orders", onError="skip", rejects=rejects, report=report)
    assert len(lab.query("orders")) == 19
    (kept,) = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert (kept["partition"], kept["row"], kept["input"]) == (1, 4, '{"v":1}')
    counts = json.loads(report.read_text())
    assert [counts[name] for name in ("messages", "inserted", "rejected", "last_txid")] == [20, 19, 1, 19]
    assert left(lab) == []


@pytest.mark.parametrize(
    ("topic", "mode", "options", "code"),
    [
        ("orders", "append", {"operation": "upsert"}, "SOW-SPK-011"),
        ("orders", "overwrite", {"operation": "delta"}, "SOW-SPK-031"),
        ("nobody", "append", {}, "SOW-ENG-012"),
        ("orders", "append", {"staging": "/proc/none"}, "SOW-ENG-044"),
    ],
)
def test_what_does_not_fit_is_refused(
    lab: Lab, spark: SparkSession, topic: str, mode: str, options: dict[str, Any], code: str
) -> None:
    with pytest.raises(SowError) as caught:
        write(lab, numbers(spark, 1), topic, mode, **options)
    assert caught.value.code == code


def test_rows_without_a_message_are_refused(lab: Lab, spark: SparkSession) -> None:
    with pytest.raises(UsageError) as caught:
        write(lab, spark.sql("SELECT 1 AS _txid"), "orders")
    assert caught.value.code == "SOW-SPK-030" and "column payload" in str(caught.value.hint)
    with pytest.raises(UsageError, match="must be bytes"):
        write(lab, spark.sql("SELECT 1 AS payload"), "orders")


def test_a_refused_row_is_named_by_partition_row_and_message(lab: Lab, spark: SparkSession) -> None:
    odd = numbers(spark, 10, "CASE WHEN id = 7 THEN 'no key' ELSE concat('{\"id\":', id, '}') END AS payload").drop(
        "id"
    )
    with pytest.raises(InputError) as caught:
        write(lab, odd, "orders")
    assert (caught.value.place, caught.value.excerpt) == ("partition 1, row 3", "no key")
    assert str(caught.value.hint).startswith("option onError=skip")
    late = numbers(spark, 4, "CASE WHEN id < 3 THEN 'publish' ELSE 'upsert' END AS _operation")
    with pytest.raises(InputError, match="'upsert'") as caught:
        write(lab, late, "orders")
    assert caught.value.place == "partition 1, row 2"
    lab.publish("orders", message(id=0))
    with pytest.raises(InputError) as caught:
        write(lab, numbers(spark, 4, "1 AS x"), "orders", operation="delta", updateOnly=True)
    assert (caught.value.place, caught.value.excerpt) == ("partition 0, row 2", message(id=1, x=1))
    assert lab.query("orders") == [message(id=0)]


def test_a_row_with_a_value_that_no_message_can_hold_is_refused_by_itself(lab: Lab, spark: SparkSession) -> None:
    day = "CASE WHEN id % 2 = 0 THEN date'2026-01-02' ELSE date'+12026-01-02' END"
    late = numbers(spark, 4, f"array({day}) AS days")
    with pytest.raises(InputError, match="column days") as caught:
        write(lab, late, "orders")
    assert (caught.value.code, caught.value.place) == ("SOW-SPK-045", "partition 0, row 2")
    write(lab, late, "orders", onError="skip")
    assert sorted(lab.query("orders")) == [message(id=n, days=["2026-01-02"]) for n in (0, 2)]


def test_what_makes_a_table_of_rows_is_refused_before_anything_is_written(lab: Lab, spark: SparkSession) -> None:
    lab.publish("orders", message(id=0))
    frame = numbers(spark, 3)
    options = {"config": str(lab.config), "topic": "orders", "now": format_time(lab.clock.at)}
    actions: dict[str, Callable[[], object]] = {
        "saved": lambda: frame.write.format("sow").options(**options).mode("append").saveAsTable("saved"),
        "replaced": lambda: (
            frame.limit(0).write.format("sow").options(**options).mode("overwrite").saveAsTable("replaced")
        ),
        "made": lambda: frame.writeTo("made").using("sow").options(**options).create(),
        "remade": lambda: frame.writeTo("remade").using("sow").options(**options).createOrReplace(),
    }
    for name, action in actions.items():
        with pytest.raises(UsageError) as caught, translate_errors():
            action()
        assert caught.value.code == "SOW-SPK-099" and "CREATE TABLE" in str(caught.value.hint), name
        assert not spark.catalog.tableExists(name)
    assert (lab.query("orders"), left(lab)) == ([message(id=0)], [])


def test_views_take_rows_and_so_do_the_batches_of_a_stream(lab: Lab, spark: SparkSession) -> None:
    """What also runs within other executions, or by SQL, and makes no table."""
    told = f"config '{lab.config}', topic 'orders', now '{format_time(lab.clock.at)}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW taking (payload STRING) USING sow OPTIONS ({told})")
    spark.sql("INSERT INTO taking SELECT '{\"id\":1}'")
    lab.publish("past", message(id=2), message(id=3))

    def each(batch: DataFrame, number: int) -> None:
        write(lab, batch.select("payload"), "orders")

    stream = spark.readStream.format("sow-journal").options(config=str(lab.config), topic="past").load()
    stream.writeStream.foreachBatch(each).trigger(availableNow=True).start().awaitTermination()
    assert sorted(lab.query("orders")) == [message(id=n) for n in (1, 2, 3)]


def unlucky(spark: SparkSession, lab: Lab, times: int) -> DataFrame:
    """60 rows in two partitions; of one, the first ``times`` attempts fail after they have handed on their rows."""
    marks = lab.directory / "marks"
    marks.mkdir()

    def run(rows: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for row in rows:
            yield row.id, row.v
        attempt = context.attemptNumber()
        (marks / f"{context.partitionId()}-{attempt}").touch()
        if context.partitionId() == 1 and attempt < times:
            raise RuntimeError("unlucky")

    return spark.createDataFrame(numbers(spark, 60, "1 AS v").rdd.mapPartitions(run), "id BIGINT, v INT")


def test_a_task_that_fails_after_writing_is_tried_again_and_counts_once(lab: Lab, spark: SparkSession) -> None:
    frame = unlucky(spark, lab, 1)
    with verified(lab):
        write(lab, frame, "loose")
        assert sorted(json.loads(text)["id"] for text in lab.query("loose")) == list(range(60))
        assert (lab.directory / "marks" / "1-1").exists()
        assert [record.txid for record in lab.records("loose", "/id = 59")] == [60]
        assert left(lab) == []


def test_a_task_that_fails_for_good_leaves_nothing(lab: Lab, spark: SparkSession) -> None:
    lab.publish("orders", message(id=1))
    before = lab.digest("orders")
    frame = unlucky(spark, lab, 9)
    with pytest.raises(Exception, match="unlucky"):
        write(lab, frame, "orders")
    assert lab.digest("orders") == before
    assert left(lab) == []


def test_what_a_dead_driver_left_is_swept_and_what_a_living_one_has_stays(lab: Lab) -> None:
    given = {"config": str(lab.config), "topic": "orders"}
    origin = find_origin(Options("sow", given, tuple(given)))
    with subprocess.Popen(["true"]) as ended:
        dead = ended.pid
    root = find_staging(origin, None, None).directory.parent
    host = json.loads(find_staging(origin, None, None).owner)["host"]
    for name, owner in (
        ("write-dead", {"host": host, "pid": dead, "started": "1"}),
        ("write-elsewhere", {"host": "elsewhere", "pid": dead, "started": "1"}),
    ):
        Staging(root / name, json.dumps(owner)).open()
    mine = find_staging(origin, "query", None)
    assert find_staging(origin, "query", None) == mine != find_staging(origin, None, None)
    mine.open()
    remove_stale_directories(root)
    assert sorted(path.name for path in root.iterdir()) == sorted([mine.directory.name, "write-elsewhere"])
    os.utime(root / "write-elsewhere", (0, 0))
    remove_stale_directories(root)
    mine.remove()
    assert not root.exists()


def request(lab: Lab, topic: str = "orders") -> WriteRequest:
    """A write as its driver plans it."""
    given = {"config": str(lab.config), "topic": topic, "now": format_time(lab.clock.at)}
    origin = find_origin(Options("sow", given, tuple(given)))
    staging = find_staging(origin, None, None)
    staging.open()
    return WriteRequest(origin, staging, PublishOptions(on_error="abort"), None)


def test_of_two_attempts_at_one_task_only_the_one_that_spark_counts_is_published(lab: Lab, spark: SparkSession) -> None:
    """Speculation: both finish, and leave their segments side by side."""
    schema = _parse_datatype_string("id BIGINT, v STRING")
    assert isinstance(schema, StructType)
    one = request(lab)

    def attempt(word: str) -> StagedMessage:
        return one.stage_rows([pyarrow.record_batch({"id": [1, 2], "v": [word, word]})], schema)

    slow, quick = attempt("slow"), attempt("quick")
    assert len(list(one.staging.directory.glob("*.segment"))) == 2
    with verified(lab):
        one.commit([quick, None])
        assert sorted(lab.query("orders")) == [message(id=1, v="quick"), message(id=2, v="quick")]
        assert lab.records("orders")[0].txid <= 2
    assert left(lab) == [] and slow != quick


def test_indexes_follow_a_commit_of_many_rows(lab: Lab, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that there are; without this the next query would read every record."""
    monkeypatch.setattr(QUERY_LIMITS, "index_tolerated_changes", 3)
    monkeypatch.setattr(QUERY_LIMITS, "index_min_records", 20)
    lab.publish("orders", *(message(id=number, v="x") for number in range(30)))
    for _ in range(2):
        lab.query("orders", "/v = 'x'", index_from=0)
    first = {path: path.read_bytes() for path in lab.directory.rglob("*.memo")}
    schema = _parse_datatype_string("id BIGINT, v STRING")
    assert first and isinstance(schema, StructType)
    for count, same in ((10, True), (30, False)):
        one = request(lab)
        rows = pyarrow.record_batch({"id": list(range(count)), "v": ["y"] * count})
        one.commit([one.stage_rows([rows], schema)])
        found = {path: path.read_bytes() for path in lab.directory.rglob("*.memo")}
        assert found.keys() == first.keys() and (found == first) is same
    assert len(lab.query("orders", "/v = 'y'", index_from=0)) == 30


DRIVER = """
import os, sys
from sowctl.spark.sessions import open_session
with open_session("local[1]", environment=os.environ, conf={"spark.driver.memory": "512m"}) as spark:
    frame = spark.range(100).selectExpr("id")
    frame.write.format("sow").options(config=sys.argv[1], topic="orders").mode("append").save()
"""


PATIENCE = 240.0
"""Seconds in which a virtual machine has started and staged something, however busy the machine is."""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find what a driver started")
def test_a_driver_killed_in_its_commit_leaves_nothing_visible_and_the_next_write_cleans_up(
    lab: Lab, spark: SparkSession, deep: bool
) -> None:
    if not deep:
        pytest.skip("a Java machine of its own: with --deep; jobs/test_faults kills the driver of a load")
    lab.publish("orders", message(id="before"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    session = WriteSession(lab.open())
    program = [sys.executable, "-c", DRIVER, str(lab.config)]
    # the commit waits for this lock, with everything staged
    with (
        session,
        session.journal.hold_lock(),
        subprocess.Popen(program, env=environment, stderr=subprocess.PIPE) as driver,
    ):
        try:
            deadline = time.monotonic() + PATIENCE
            while not any(path.name.endswith(".segment") for path in left(lab)) and time.monotonic() < deadline:
                assert driver.poll() is None, driver.communicate()[1].decode()
                time.sleep(0.05)
            time.sleep(1)
        finally:
            kill_tree(driver.pid, PATIENCE)
    assert any(path.name.endswith(".segment") for path in left(lab))
    assert lab.query("orders") == [message(id="before")]
    with verified(lab):
        write(lab, numbers(spark, 3), "orders")
        assert len(lab.query("orders")) == 4
        assert left(lab) == []


DOMAIN = "<KeyDomain>shared</KeyDomain>"
COPIES = config_xml(
    topic_xml("orders", DOMAIN) + topic_xml("copy", DOMAIN) + topic_xml("bare", DOMAIN), ("orders", "copy")
)


@pytest.mark.parametrize("topic", ["copy", "bare"])
def test_a_stream_writes_each_batch_once_even_after_the_store_was_rebuilt(
    tmp_path: Path, spark: SparkSession, topic: str
) -> None:
    lab = Lab(tmp_path, COPIES)
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        frame = spark.readStream.format("sow-journal").options(config=str(lab.config), topic="orders", maxEntries="20")
        sink = frame.load().writeStream.format("sow").options(config=str(lab.config), topic=topic, queryName="copier")
        query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    def forget_last_commit() -> None:
        """As if the driver had died behind our commit and before Spark's own."""
        last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)

    for step in range(2):
        lab.publish("orders", *[message(id=i, step=step) for i in range(20)])
    lab.open().topic("orders").delete(filter="/id < 5")
    run()
    assert sorted(lab.query(topic)) == sorted(lab.query("orders")) and len(lab.query(topic)) == 15
    before = lab.records(topic)
    forget_last_commit()
    if topic == "copy":
        lab.forget("copy")
        lab.open().topic("copy").replay()
    lab.clock.tick(60)
    run()
    assert [(r.txid, r.timestamp, r.payload) for r in lab.records(topic)] == [
        (r.txid, r.timestamp, r.payload) for r in before
    ]
    old = shutil.copytree(checkpoint, tmp_path / "old")
    lab.publish("orders", message(id=99))
    run()
    assert len(lab.query(topic)) == 16
    # A copy that is one batch old plans that batch anew, with more rows: it is no repetition.
    lab.publish("orders", message(id=100))
    current = checkpoint.rename(tmp_path / "current")
    old.rename(checkpoint)
    with pytest.raises(RefusedError) as caught, translate_errors():
        run()
    assert caught.value.code == "SOW-SPK-171"
    assert len(lab.query(topic)) == 16
    shutil.rmtree(checkpoint)
    current.rename(checkpoint)
    run()
    assert len(lab.query(topic)) == 17
    # Another checkpoint begins at batch 0: nothing of it is taken for a repetition, or written.
    shutil.rmtree(checkpoint)
    lab.open().topic(topic).delete(filter="/id >= 0")
    with pytest.raises(RefusedError) as caught, translate_errors():
        run()
    assert caught.value.code == "SOW-SPK-171"
    assert lab.query(topic) == []
    assert left(lab) == []


STREAM = """
import os, sys
from sowctl.spark.sessions import open_session
from tests.spark.test_writers import copy_orders
from tests.support.processes import QUICK
conf = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": QUICK}
with open_session("local[2]", environment=os.environ, conf=conf) as spark:
    copy_orders(spark, *sys.argv[1:])
"""


def copy_orders(spark: SparkSession, config: str, topic: str, checkpoint: str) -> None:
    """Publish the entries of a topic to another one, 20 a batch, until all have been."""
    frame = spark.readStream.format("sow-journal").options(config=config, topic="orders", maxEntries="20").load()
    sink = frame.writeStream.format("sow").options(config=config, topic=topic, queryName="copier")
    sink = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    for more in (True, True, False):
        try:
            with translate_errors():
                sink.start().awaitTermination()
            return
        except Exception as error:
            # Spark gives the process of a source ten seconds to start.
            if not more or "failed to connect back" not in str(error):
                raise


def published(lab: Lab, topic: str) -> list[str]:
    """What the journal has of a topic, in its order: what was committed, as often as it was."""
    with open_log(lab.open()) as log:
        entries = [entry for block in log.iter_blocks() for entry in block.iter_entries() if entry.topic[0] == topic]
    return [entry.payload.decode() for entry in entries]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find what a driver started")
def test_a_stream_whose_driver_is_killed_within_batches_publishes_each_entry_once(
    tmp_path: Path, spark: SparkSession, deep: bool
) -> None:
    lab = Lab(tmp_path, COPIES)
    moments = random.Random(8)
    program = [sys.executable, "-c", STREAM, str(lab.config), "copy", str(tmp_path / "checkpoint")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    environment["PYTHONPATH"] = str(ROOT)
    for turn in range(20 if deep else 1):
        for number in range(6):
            lab.publish("orders", *[message(id=number, turn=turn, n=n) for n in range(20)])
        before = len(published(lab, "copy"))
        with subprocess.Popen(program, env=environment, cwd=ROOT, stderr=subprocess.PIPE) as driver:
            try:
                deadline = time.monotonic() + PATIENCE
                while len(published(lab, "copy")) == before and time.monotonic() < deadline:
                    assert driver.poll() is None, driver.communicate()[1].decode()
                    time.sleep(0.05)
                time.sleep(moments.uniform(0, 1))
            finally:
                kill_tree(driver.pid, PATIENCE)
    with verified(lab):
        copy_orders(spark, *program[-3:])
        assert published(lab, "copy") == published(lab, "orders")
        assert lab.query("copy") == lab.query("orders")
    assert left(lab) == []


def test_a_stream_must_have_a_name(lab: Lab, spark: SparkSession) -> None:
    lab.publish("orders", message(id=1))
    sink = (
        spark.readStream.format("sow-journal")
        .options(config=str(lab.config))
        .load()
        .writeStream.format("sow")
        .options(config=str(lab.config), topic="loose", checkpointLocation=str(lab.directory / "c"))
        .trigger(availableNow=True)
    )
    with pytest.raises(UsageError, match="queryName"), translate_errors():
        sink.start().awaitTermination()


def test_threads_write_with_an_active_session(lab: Lab, spark: SparkSession) -> None:
    def run(*, active: bool) -> None:
        if active:
            activate_session(spark)
        write(lab, numbers(spark, 3), "orders")

    with ThreadPoolExecutor(1) as threads, pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND") as caught:
        threads.submit(run, active=False).result()
    assert "activate_session" in "".join(caught.value.__notes__)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(run, active=True).result()
    assert len(lab.query("orders")) == 3

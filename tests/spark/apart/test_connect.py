"""Spark Connect: the data sources in a session that has no virtual machine of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from sowctl.spark.jvm.java import find_java
from tests.support.instances import Lab, config_xml, message, topic_xml

NEEDED = ("grpc", "grpc_status", "google.rpc", "pandas", "zstandard")
PROGRAM = """
import sys
import sowctl.spark
from pyspark.sql import SparkSession
from sowctl.errors import InputError, UsageError
from sowctl.spark.errors import translate_errors

config, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
sowctl.spark.register(spark)

def rows(statement):
    with translate_errors():
        return [tuple(row) for row in spark.sql(statement).collect()]

where = {"config": config, "topic": "orders"}
frame = spark.read.format("sow").options(**where, payload="struct").load()
assert frame.select("payload.id").orderBy("id").collect() == [(1,), (2,)]
entries = spark.read.format("sow-journal").options(config=config, topic="orders").load()
assert entries.count() == 2
spark.sql("SELECT 3 AS id").write.format("sow").options(**where).mode("append").save()
rows(f"CREATE TABLE orders USING sow OPTIONS (config '{config}', topic 'orders')")
rows("INSERT INTO orders (payload) VALUES (CAST('{\\"id\\":4}' AS BINARY))")
assert rows("SELECT count(*) FROM orders") == [(4,)]
for action, kind, words in (
    (lambda: spark.read.format("sow").options(**where, filtre="x").load().count(), UsageError, "no option 'filtre'"),
    (
        lambda: spark.sql("SELECT 1 AS x").write.format("sow").options(**where).mode("append").save(),
        InputError,
        "key field /id is missing",
    ),
    (
        lambda: spark.sql("SELECT 9 AS id").write.format("sow").options(**where).saveAsTable("t"),
        UsageError,
        "SOW-SPK-099",
    ),
):
    try:
        with translate_errors():
            action()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
query = (
    spark.readStream.format("sow-journal").options(config=config, topic="orders").load().select("payload")
    .writeStream.format("sow").options(config=config, topic="copy", queryName="copier", checkpointLocation=checkpoint)
    .trigger(availableNow=True).start()
)
query.awaitTermination()
spark.stop()
"""


def absent() -> list[str]:
    """What Connect needs of Python packages and is not here."""

    def is_there(name: str) -> bool:
        try:
            return find_spec(name) is not None
        except ModuleNotFoundError:
            return False

    return [name for name in NEEDED if not is_there(name)]


@pytest.mark.skipif(bool(absent()), reason=f"Spark Connect needs {', '.join(absent())}: pip install 'pyspark[connect]'")
def test_the_sources_work_in_a_session_of_connect(tmp_path: Path, deep: bool) -> None:
    if not deep:
        pytest.skip("a Java machine of its own: with --deep")
    lab = Lab(tmp_path, config_xml(topic_xml("orders") + topic_xml("copy"), ("orders", "copy")))
    lab.publish("orders", message(id=1), message(id=2))
    here = str(Path(__file__).parents[3])
    environment = os.environ | {
        "JAVA_HOME": str(find_java(os.environ).home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    program = [sys.executable, "-c", PROGRAM, str(lab.config), str(tmp_path / "checkpoint")]
    done = subprocess.run(program, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(lab.query("orders")) == [message(id=n) for n in (1, 2, 3, 4)] == sorted(lab.query("copy"))

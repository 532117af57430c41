"""One Spark session for the whole room, started by the first test that asks for it and ended with the run."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.processes import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    # The sessions of tests end before the second compiler has paid for itself.
    "spark.driver.extraJavaOptions": QUICK,
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.sql.python.filterPushdown.enabled": "true",
}
TOPICS = (
    topic_xml("orders", "<Expiration>1h</Expiration>"),
    topic_xml("chosen", key=None),
    topic_xml("past", "<History><Window>1d</Window><Granularity>1us</Granularity></History>"),
    topic_xml("loose"),
)
XML = config_xml("".join(TOPICS), ("orders", "chosen", "past"))


def missing() -> str | None:
    """Why there can be no Spark here, or None."""
    absent = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    return f"the extra 'spark' is not installed (no {', '.join(absent)})" if absent else None


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores (a failed task may be tried again once more); no virtual machine outlives it."""
    if reason := missing():
        pytest.skip(reason)
    from sowctl.spark.sessions import open_session

    # local[N, F]: F attempts per task, so that a task that fails once is tried again
    interrupt = signal.getsignal(signal.SIGINT)
    with open_session("local[2, 2]", environment=os.environ, conf=SETTINGS, app="sowctl tests") as session:
        signal.signal(signal.SIGINT, interrupt)  # Spark's own handler would meet the tests of other rooms
        yield session


@pytest.fixture(scope="session")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """An instance with a past: updates, deletions, lifetimes, several journal files. To be read only."""
    return stock(tmp_path_factory.mktemp("stocked"))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """The same instance without anything in it, to be written to."""
    return Lab(tmp_path, XML)


def stock(directory: Path, journal_size: int = 20_000) -> Lab:
    """The instance of :func:`stocked`."""
    lab = Lab(directory, XML, journal_size=journal_size)
    rng = random.Random(7)
    for step in range(12):
        for topic in ("orders", "past", "loose"):
            ids = [rng.randrange(60) for _ in range(25)]
            lab.publish(
                topic,
                *[
                    message(id=i, step=step, price=round(rng.uniform(1, 100), 2), who={"name": f"n{i % 5}é"}, tags=[i])
                    for i in ids
                ],
                expiration=None if step % 3 else 100.0 * (step + 1),
                client="feed" if topic == "past" else None,
                sequence=25 * step + 1 if topic == "past" else None,
            )
            lab.clock.tick(1)
        lab.publish("chosen", message(id=step), sow_key=f"key{step % 5}")
        topic = lab.open().topic("orders")
        topic.delete(filter=f"/id = {step * 3}")
        lab.clock.tick(60)
    return lab

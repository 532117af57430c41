"""One Spark session for the whole room, started by the first test that asks for it and ended with the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
}


def missing() -> str | None:
    """Why there can be no Spark here, or None."""
    absent = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    return f"the extra 'spark' is not installed (no {', '.join(absent)})" if absent else None


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores (a failed task may be tried again once more); no virtual machine outlives it."""
    if reason := missing():
        pytest.skip(reason)
    from sowctl.spark.session import open_session

    # local[N, F]: F attempts per task, so that a task that fails once is tried again
    with open_session("local[2, 2]", environment=os.environ, conf=SETTINGS, app="sowctl tests") as session:
        yield session

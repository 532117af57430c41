"""The data pipeline on Spark: data sources ``sow`` and ``sow-journal``, and one module per job (sowctl-spark(7)).

Only this package imports pyspark. It calls the engine and reads stores and journals with their own codecs.
``with sowctl.spark.session() as spark:`` opens a session in which the data sources are registered.
``sowctl.spark.register(spark)`` registers them in an existing session, and ``sowctl.spark.activate_session(spark)``
prepares a thread that writes. ``sowctl.spark.table(spark, topic)`` reads the fields of a topic that a query needs.
:mod:`sowctl.arrow` decodes payloads into structs.

* ``sessions``: opening and ending Spark sessions.
* ``jvm``: the Java virtual machine of a session.
* ``submit``: running jobs with spark-submit.
* ``sources``: the two data sources.
* ``pruning``: topics as tables of the fields that a query needs.
* ``options``: the options of readers and writers.
* ``paths``: paths and ``file:`` URLs.
* ``origin``: the instance, topic or files of a data source.
* ``catalog``: tables of Spark's catalog.
* ``pairfiles``: staged files of keys and values, by which tasks and the planning process pass data on.
* ``schema``: the columns of both data sources.
* ``reading``: reading stores and journals.
* ``writing``: writing rows to a topic.
* ``jobs``: the functions of ``sowctl pipeline``.
* ``errors``: passing errors of this program through Spark.
* ``samecode``: checks that executors run the code of the driver.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from os import environ
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from sowctl.spark.sessions import Session

__all__ = ["activate_session", "register", "session", "table"]


def session(
    master: str | None = None,
    *,
    conf: Mapping[str, str] | None = None,
    app: str = "sowctl",
    environment: Mapping[str, str] | None = None,
    verbose: bool = False,
    packed: str | Path | None = None,
    short: bool = False,
) -> Session:
    """Return a session for a ``with`` statement, or for ``start()`` and ``stop()``.

    By default it is quiet and runs on all processors of this machine. ``master`` selects another master; without it,
    ``spark.master`` in ``conf`` (Spark's settings) does. ``environment`` (JAVA_HOME, PATH, ...) defaults to that of the
    process. With ``verbose``, Spark's own messages are written to standard error. ``packed`` is an environment created
    by venv-pack, which the executors of a cluster unpack and run. ``short`` is for work of a few seconds, which ends
    before Java's optimizing compiler pays off. An existing session is used and left running. Starting raises what
    :func:`sowctl.spark.sessions.open_session` raises.
    """
    from sowctl.spark.sessions import LOCAL_MASTER, Session

    return Session(
        master or LOCAL_MASTER,
        environment=environ if environment is None else environment,
        conf=conf,
        app=app,
        verbose=verbose,
        packed=packed,
        short=short,
    )


def register(spark: SparkSession) -> None:
    """Register the formats ``sow`` and ``sow-journal`` in a session.

    With a local master and without PYSPARK_PYTHON, their processes run the same Python as this process.
    """
    from sowctl.spark.sources import SOURCES

    with _use_this_python(spark):
        for source in SOURCES:
            spark.dataSource.register(source)


def activate_session(spark: SparkSession) -> None:
    """Make a session the active session of this thread, in which Spark looks up the data sources of a write.

    Spark itself activates a session only in the thread that created it. Spark Connect needs no active session.
    """
    from pyspark.sql import SparkSession as Classic

    if isinstance(spark, Classic):
        # Spark's Python API has no function that sets the active session of a thread.
        virtual_machine: Any = spark._jvm
        virtual_machine.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def table(
    spark: SparkSession,
    topic: str,
    query: Callable[[DataFrame], DataFrame] | None = None,
    *,
    config: str | Path | None = None,
    select: Sequence[str] | None = None,
    where: str | None = None,
    source: str = "sow",
    **options: object,
) -> DataFrame:
    """Return the records of a topic, view, conflated topic or queue as a table: one column per field of its messages,
    then the columns of the source.

    ``select`` names the columns and fields to decode, for example ``["qty", "trader.id", "_txid"]``. ``query`` is a
    function from the table to a DataFrame, which is then the result; only the columns that Spark needs for it are
    decoded. The function is called twice. ``where`` is the option ``filter``, in the language of
    sowctl-expressions(7). ``source`` may be ``sow-journal``; ``options`` are its other options. Without
    ``payloadSchema``, the fields are inferred. Raises UsageError ``SOW-SPK-015`` if a column does not exist, TypeError
    if ``query`` does not return a DataFrame, and what reading raises.
    """
    from sowctl.spark.pruning import read_table

    given = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    given |= {name: str(value) for name, value in (("config", config), ("filter", where)) if value is not None}
    return read_table(spark, topic, query, source, select, given)


@contextmanager
def _use_this_python(spark: SparkSession) -> Iterator[None]:
    """Make data sources that are registered within the block run this Python instead of the ``python3`` on PATH.

    If the environment is not activated, the python3 on PATH has no sowctl. Spark stores the Python command with each
    data source and function, so those that the user registers keep their own.
    """
    from pyspark.sql import SparkSession as Classic

    from sowctl.spark.jvm.masters import is_local

    # A session of Spark Connect has no context; its server chooses the Python.
    context = spark.sparkContext if isinstance(spark, Classic) else None
    if context is None or not is_local(context.master or "") or "PYSPARK_PYTHON" in environ or not sys.executable:
        yield
        return
    before = context.pythonExec
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = before

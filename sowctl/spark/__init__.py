"""The data pipeline on Spark: data sources ``sow`` and ``sow-journal``, and one module per job (sowctl-spark(7)).

The only package that imports pyspark; it calls the engine and reads stores and journals with their own
codecs. ``with sowctl.spark.session() as spark:`` opens a session that knows the data sources;
``sowctl.spark.register(spark)`` makes them known to another one, ``sowctl.spark.activate_session(spark)`` to a thread
that writes. ``sowctl.spark.table(spark, topic)`` reads the fields of a topic that a query needs. :mod:`sowctl.arrow`
makes structs of payloads.

* ``sessions``: opening and ending Spark sessions.
* ``jvm``: the Java virtual machine of a session.
* ``submit``: running jobs with spark-submit.
* ``sources``: the two data sources.
* ``pruning``: topics as tables of the fields that a query needs.
* ``options``: the options of readers and writers.
* ``paths``: paths as Spark users write them.
* ``origin``: the instance, topic or files of a data source.
* ``catalog``: tables of Spark's catalog.
* ``pairfiles``: files of keys and values that one task or the planning process leaves for others.
* ``schema``: the columns of both data sources.
* ``reading``: reading stores and journals.
* ``writing``: writing rows to a topic.
* ``jobs``: the functions of ``sowctl pipeline``.
* ``errors``: errors of this program carried through Spark.
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
    """A session for a ``with``, or to ``start()`` and ``stop()``: quiet, and on all processors of this machine.

    ``master`` names another one; else ``conf``, which are Spark's settings, may have ``spark.master``.
    ``environment`` (JAVA_HOME, PATH, ...) is the process's unless given; with ``verbose`` Spark's own messages reach
    standard error. ``packed``, on a cluster, is an environment that executors unpack and run, as venv-pack makes it.
    ``short``: for work of seconds, which ends before a second compilation by Java pays. A session that exists already
    is joined and left running. Starting raises what :func:`sowctl.spark.sessions.open_session` raises.
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
    """Make the formats ``sow`` and ``sow-journal`` known to a session.

    With a local master, and without PYSPARK_PYTHON, their processes run the Python of this one.
    """
    from sowctl.spark.sources import SOURCES

    with _use_this_python(spark):
        for source in SOURCES:
            spark.dataSource.register(source)


def activate_session(spark: SparkSession) -> None:
    """Make a session the active one of this thread, which Spark asks for the sources when a thread writes.

    Spark activates a session in the thread that made it alone. Sessions of Spark Connect need no active one.
    """
    from pyspark.sql import SparkSession as Classic

    if isinstance(spark, Classic):
        # Of Python's API, no function sets it in a thread.
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
    """The records of a topic, view, conflated topic or queue as a table: a column for each field of its messages, then
    the columns of the source.

    ``select`` names columns and fields, such as ``["qty", "trader.id", "_txid"]``: no others are decoded. ``query`` is
    a function from the table to a DataFrame, which is the result: of the table, the columns are decoded that Spark
    needs for it. It is called twice. ``where`` is the option ``filter``, in the language of sowctl-expressions(7);
    ``source`` may be ``sow-journal``; ``options`` are the others of the source. Without ``payloadSchema``, the fields
    are inferred. Raises UsageError ``SOW-SPK-015`` for a column that does not exist, TypeError where ``query`` returns
    something else, and what reading raises.
    """
    from sowctl.spark.pruning import read_table

    given = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    given |= {name: str(value) for name, value in (("config", config), ("filter", where)) if value is not None}
    return read_table(spark, topic, query, source, select, given)


@contextmanager
def _use_this_python(spark: SparkSession) -> Iterator[None]:
    """Let what is registered within the block run this Python where Spark would run ``python3`` of PATH.

    An environment that is not activated has sowctl, and the python3 of PATH has not. Spark sends the name of the
    Python along with each data source and function, so those of the session's user keep theirs.
    """
    from pyspark.sql import SparkSession as Classic

    from sowctl.spark.jvm.masters import is_local

    # A session of Spark Connect has no context, and its server a Python of its own.
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

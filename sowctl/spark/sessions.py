"""A Spark session for one command, one notebook or one test run: quiet, local unless told otherwise, ended cleanly.

Called by the jobs' commands, by programs and by the tests. sowctl-spark(7) lists the settings made here and why; every
one of them yields to a setting of the caller. A session that exists already (a notebook's, spark-submit's) is used as
it is and left running; :mod:`sowctl.spark.jvm.machine` starts and ends the virtual machine of any other.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sowctl.extras import build_missing_package_error
from sowctl.spark.jvm.java import Java, find_java
from sowctl.spark.jvm.machine import (
    STATES_VARIABLE,
    build_quick_home,
    build_start_error,
    end_machine,
    format_error,
    restore_interrupt_handler,
    set_environment,
    start_machine,
)
from sowctl.spark.jvm.masters import is_local, require_master
from sowctl.spark.jvm.packed_environment import build_driver_variables, build_packed_settings
from sowctl.work_directories import SPARK_PREFIX, create_work_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*]"
"""All processors of this machine."""
QUICK_COMPILE_FLAG = "-XX:TieredStopAtLevel=1"
"""Has Java compile once and quickly what runs often, and not a second time and better."""
_LOGGING = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex{{5}}
"""


class Session:
    """A session that a ``with`` opens and ends; a notebook calls :meth:`start` and :meth:`stop`.

    The arguments are those of :func:`open_session`.
    """

    def __init__(
        self,
        master: str,
        *,
        environment: Mapping[str, str],
        conf: Mapping[str, str] | None = None,
        app: str = "sowctl",
        verbose: bool = False,
        packed: str | Path | None = None,
        short: bool = False,
    ) -> None:
        self._open = partial(
            open_session,
            master,
            environment=environment,
            conf=conf,
            app=app,
            verbose=verbose,
            packed=packed,
            short=short,
        )
        self._ends = ExitStack()
        self._spark: SparkSession | None = None

    def start(self) -> SparkSession:
        """Open it, unless it is open. Raises what :func:`open_session` raises."""
        if self._spark is None:
            self._spark = self._ends.enter_context(self._open())
            # Run while modules can still be imported: a program may stop only Spark's session, or none.
            atexit.register(self.stop)
        return self._spark

    def stop(self) -> None:
        """End it, if it is open; it can be started again."""
        self._spark = None
        atexit.unregister(self.stop)
        self._ends.close()

    def __enter__(self) -> SparkSession:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()


@contextmanager
def open_session(
    master: str = LOCAL_MASTER,
    *,
    environment: Mapping[str, str],
    conf: Mapping[str, str] | None = None,
    app: str = "sowctl",
    verbose: bool = False,
    packed: str | Path | None = None,
    short: bool = False,
) -> Iterator[SparkSession]:
    """A session on ``master`` with the data sources of this package registered; stopped at the end of the ``with``.

    ``environment`` stands for the process's (JAVA_HOME, PATH, ...); ``conf`` are Spark's settings and win over ours;
    with ``verbose`` Spark's own messages reach stderr, otherwise they are dropped. ``packed`` is an environment that
    executors unpack and run, as venv-pack makes it. ``short``: the session is for work of seconds, which ends before a
    second compilation by Java pays. Afterwards no virtual machine is left. Raises UsageError
    SOW-SPK-001 (pyspark is missing) and SOW-SPK-135 (``packed``), ConfigError SOW-SPK-002 (no Java), SOW-SPK-003 (Spark
    did not start) or SOW-SPK-004 (no master answers).
    """
    require_pyspark()
    from pyspark import SparkContext

    with ExitStack() as ends:
        if not verbose:
            ends.enter_context(_without_error_logs())
            _import_without_warning()
        # The variable is set by spark-submit, which has started the virtual machine already; a second one would be
        # another application.
        joined = SparkContext._active_spark_context is not None
        if joined or "PYSPARK_GATEWAY_PORT" in environment:
            spark = _join(conf or {})
            if not joined:
                # Begun here, it ends here: left to the virtual machine's end it would get 30 seconds, too few to remove
                # an environment that was unpacked.
                ends.callback(_stop_quietly, spark.stop)
        else:
            given, variables = dict(conf or {}), dict[str, str]()
            if packed is not None:
                given = build_packed_settings(Path(packed), given.get("spark.master", master)) | given
                variables = build_driver_variables(environment)
            spark = _start(ends, master, environment, variables, given, app, verbose, short=short)
        _register(spark)
        yield spark


@contextmanager
def _without_error_logs() -> Iterator[None]:
    """pyspark raises errors of SQL and of DataFrames, and logs each to stderr, as JSON with its trace: not here."""
    from pyspark.logger import PySparkLogger

    # made by pyspark, which calls them with arguments that loggers of another class refuse
    loggers = [PySparkLogger.getLogger(f"{name}QueryContextLogger") for name in ("SQL", "DataFrame")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _import_without_warning() -> None:
    """Import the module that pyspark imports with the first argument for Java, and that warns of pandas 3 then.

    Nothing here hands data frames of pandas to Spark, so the warning tells the user of a command nothing.
    """
    with warnings.catch_warnings(), suppress(ImportError):
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        import_module("pyspark.testing.utils")


def require_pyspark() -> None:
    """Raise MissingPackageError SOW-SPK-001 where the extra ``spark`` is not installed."""
    from importlib.util import find_spec

    for module in ("pyspark", "pyarrow"):
        if find_spec(module) is None:
            words = f"the Spark pipeline requires the package {module}, which is not installed"
            raise build_missing_package_error("SOW-SPK-001", words, "spark")


def build_settings(
    master: str, work: Path, given: Mapping[str, str], *, app: str, verbose: bool, short: bool = False
) -> dict[str, str]:
    """Spark's settings for a session; ``work`` is its own directory. What is ``given`` wins.

    ``short``: the session does little."""
    level = "warn" if verbose else "error"
    (work / "log4j2.properties").write_text(_LOGGING.format(level=level), "utf-8")
    made = {
        "spark.master": master,
        "spark.app.name": app,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Times are shown in UTC (behaviour 11.22), whatever the zone of this machine.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
        "spark.sql.warehouse.dir": (work / "warehouse").as_uri(),
    }
    if is_local(master):
        # nothing outside this machine talks to it, and the directory goes with the session
        made["spark.driver.bindAddress"] = made["spark.driver.host"] = "127.0.0.1"
        made["spark.local.dir"] = str(work / "scratch")
        made["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    # Behind all of ours, so that a setting of the caller wins.
    made |= given
    # Put together and not replaced: with the caller's options alone, Spark would log to the terminal again.
    options = [f"-Dlog4j2.configurationFile={(work / 'log4j2.properties').as_uri()}"]
    # On a cluster the driver's machine only plans; and of an option given twice Java takes the last one.
    if short and is_local(master):
        options.append(QUICK_COMPILE_FLAG)
    if given.get("spark.driver.extraJavaOptions"):
        options.append(given["spark.driver.extraJavaOptions"])
    made["spark.driver.extraJavaOptions"] = " ".join(options)
    return made


def _join(conf: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _start(
    ends: ExitStack,
    master: str,
    environment: Mapping[str, str],
    variables: Mapping[str, str],
    conf: dict[str, str],
    app: str,
    verbose: bool,
    *,
    short: bool,
) -> SparkSession:
    from pyspark.sql import SparkSession

    # Asked before Java is looked for and started: a master that is not there would cost a minute.
    require_master(conf.get("spark.master", master))
    java = find_java(environment)
    master = conf.pop("spark.master", master)
    # What is entered in ``ends`` first ends last: the session, its context, the virtual machine, and the directory when
    # nothing uses it any more.
    work = ends.enter_context(create_work_directory(SPARK_PREFIX))
    made = build_settings(master, work, conf, app=app, verbose=verbose, short=short)
    if "SPARK_LOCAL_DIRS" in environment and "spark.local.dir" not in conf:
        # The user's variable says where Spark keeps its scratch files, and wins over a setting anyway.
        made.pop("spark.local.dir", None)
    ends.enter_context(restore_interrupt_handler())
    variables = {**_variables(java, master, environment), **variables}
    if is_local(master):
        variables[STATES_VARIABLE] = str(work / "states")
    # A cluster's workers have homes of their own; and one that the user names is meant.
    if is_local(master) and "SPARK_HOME" not in environment:
        variables |= build_quick_home(work / "home")
    with set_environment(variables):
        gateway = start_machine(made, work, verbose)
        ends.callback(end_machine, gateway)
        try:
            context = _context(made, gateway)
        except Exception as error:
            raise build_start_error(format_error(error), work) from error
    ends.callback(_stop_quietly, context.stop)
    try:
        spark = SparkSession.builder.getOrCreate()
    except Exception as error:
        # a master that took the connection and never the application: Spark has given up and stopped meanwhile
        raise build_start_error(format_error(error), work) from error
    ends.callback(_stop_quietly, spark.stop)
    return spark


def _variables(java: Java, master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Build the variables that pyspark and its launcher take from the process's environment and nowhere else."""
    variables = {"JAVA_HOME": str(java.home)}
    # Without it Spark's workers would run the first python3 on PATH, which may lack this package.
    if is_local(master) and "PYSPARK_PYTHON" not in environment:
        variables["PYSPARK_PYTHON"] = sys.executable
    here = Path(__file__).parents[2]
    if is_local(master) and here.name not in ("site-packages", "dist-packages"):
        # workers are processes of their own, and must find a package that is not installed where this one found it
        paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
        variables["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*paths, str(here)]))
    if "SPARK_LOCAL_IP" not in environment and is_local(master):
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    return variables


def _context(made: Mapping[str, str], gateway: Any) -> Any:
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(loadDefaults=False).setAll(list(made.items()))
    return SparkContext(conf=conf, gateway=gateway)


def _register(spark: SparkSession) -> None:
    from sowctl.spark.sources import SOURCES

    for source in SOURCES:
        spark.dataSource.register(source)


def _stop_quietly(stop: Callable[[], object]) -> None:
    with suppress(Exception):
        # a machine that died on the way cannot be asked to stop; what follows ends it
        stop()

"""Spark sessions for a command, a notebook or a test run: quiet, local by default, and shut down cleanly.

Called by the jobs' commands, by programs and by the tests. sowctl-spark(7) lists the settings made here and their
reasons; settings of the caller override them. An existing session (of a notebook or of spark-submit) is used unchanged
and left running. For a new one, :mod:`sowctl.spark.jvm.machine` starts and ends the virtual machine.
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
"""Limits Java to its fast compiler; the optimizing compiler is not used."""
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
    """A session that a ``with`` statement starts and stops; notebooks call :meth:`start` and :meth:`stop`.

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
        """Start the session if it is not running, and return it. Raises what :func:`open_session` raises."""
        if self._spark is None:
            self._spark = self._ends.enter_context(self._open())
            # Programs may stop only Spark's session, or nothing; atexit runs while modules can still be imported.
            atexit.register(self.stop)
        return self._spark

    def stop(self) -> None:
        """Stop the session if it is running; it can be started again."""
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
    """Start a session on ``master``, register the data sources in it, and stop it at the end of the ``with``.

    ``environment`` replaces that of the process (JAVA_HOME, PATH, ...). ``conf`` are Spark's settings and override
    those made here. With ``verbose``, Spark's own messages are written to stderr; otherwise they are discarded.
    ``packed`` is an environment created by venv-pack, which executors unpack and run. ``short``: the session is for
    work of a few seconds, which ends before Java's optimizing compiler pays off. A virtual machine that was started
    here is ended. Raises MissingPackageError SOW-SPK-001 (a package is missing), UsageError SOW-SPK-135 (``packed``),
    ConfigError SOW-SPK-002 (no Java), SOW-SPK-003 (Spark did not start) or SOW-SPK-004 (no master answers).
    """
    require_pyspark()
    from pyspark import SparkContext

    with ExitStack() as ends:
        if not verbose:
            ends.enter_context(_without_error_logs())
            _import_without_warning()
        # spark-submit sets the variable; it has started the virtual machine already, and a second one would be another
        # application.
        joined = SparkContext._active_spark_context is not None
        if joined or "PYSPARK_GATEWAY_PORT" in environment:
            spark = _join(conf or {})
            if not joined:
                # Stop the session explicitly: the shutdown hook of the virtual machine gets only 30 seconds, too few to
                # remove an unpacked environment.
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
    """Suppress the log lines, JSON with a traceback, that pyspark writes to stderr for each error that it raises."""
    from pyspark.logger import PySparkLogger

    # pyspark must create these loggers: it passes arguments that loggers of other classes reject.
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
    """Import, without its warning about pandas 3, the module that pyspark imports with the first argument for Java.

    No pandas data frames are passed to Spark here, so the warning does not concern users of the commands.
    """
    with warnings.catch_warnings(), suppress(ImportError):
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        import_module("pyspark.testing.utils")


def require_pyspark() -> None:
    """Raise MissingPackageError SOW-SPK-001 if the extra ``spark`` is not installed."""
    from importlib.util import find_spec

    for module in ("pyspark", "pyarrow"):
        if find_spec(module) is None:
            words = f"the Spark pipeline requires the package {module}, which is not installed"
            raise build_missing_package_error("SOW-SPK-001", words, "spark")


def build_settings(
    master: str, work: Path, given: Mapping[str, str], *, app: str, verbose: bool, short: bool = False
) -> dict[str, str]:
    """Return Spark's settings for a session whose directory is ``work``. Settings in ``given`` take precedence.

    ``short``: optimize for a short session."""
    level = "warn" if verbose else "error"
    (work / "log4j2.properties").write_text(_LOGGING.format(level=level), "utf-8")
    made = {
        "spark.master": master,
        "spark.app.name": app,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Times are shown in UTC (behaviour 11.22), regardless of the time zone of this machine.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
        "spark.sql.warehouse.dir": (work / "warehouse").as_uri(),
    }
    if is_local(master):
        # Only processes of this machine connect to it, and the directory is removed with the session.
        made["spark.driver.bindAddress"] = made["spark.driver.host"] = "127.0.0.1"
        made["spark.local.dir"] = str(work / "scratch")
        made["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    # Last, so that settings of the caller take precedence.
    made |= given
    # Combine the Java options: with only those of the caller, Spark would log to the terminal again.
    options = [f"-Dlog4j2.configurationFile={(work / 'log4j2.properties').as_uri()}"]
    # Only for a local master, because on a cluster the driver only plans. Before the caller's options, because Java
    # uses the last of two values.
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

    # Check the master before starting Java: Spark would wait for a minute if it does not answer.
    require_master(conf.get("spark.master", master))
    java = find_java(environment)
    master = conf.pop("spark.master", master)
    # ``ends`` closes in reverse order: the session, its context, the virtual machine, and finally the directory.
    work = ends.enter_context(create_work_directory(SPARK_PREFIX))
    made = build_settings(master, work, conf, app=app, verbose=verbose, short=short)
    if "SPARK_LOCAL_DIRS" in environment and "spark.local.dir" not in conf:
        # The user's variable sets the directory of Spark's scratch files; Spark prefers it to the setting anyway.
        made.pop("spark.local.dir", None)
    ends.enter_context(restore_interrupt_handler())
    variables = {**_variables(java, master, environment), **variables}
    if is_local(master):
        variables[STATES_VARIABLE] = str(work / "states")
    # Workers of a cluster have their own SPARK_HOME, and one that the user sets is respected.
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
        # The master accepted the connection but never the application, and Spark gave up.
        raise build_start_error(format_error(error), work) from error
    ends.callback(_stop_quietly, spark.stop)
    return spark


def _variables(java: Java, master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Build the variables that pyspark and its launcher read only from the environment of the process."""
    variables = {"JAVA_HOME": str(java.home)}
    # Without it Spark's workers would run the first python3 on PATH, which may lack this package.
    if is_local(master) and "PYSPARK_PYTHON" not in environment:
        variables["PYSPARK_PYTHON"] = sys.executable
    here = Path(__file__).parents[2]
    if is_local(master) and here.name not in ("site-packages", "dist-packages"):
        # The package is not installed, so worker processes need the path under which this process found it.
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
        # Stopping fails if the virtual machine has died; end_machine() handles that.
        stop()

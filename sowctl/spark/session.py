"""A Spark session for one command, one notebook or one test run: quiet, local unless told otherwise, ended cleanly.

Called by the jobs' commands, by programs and by the tests. sowctl-spark(7) lists the settings made here and why; every
one of them yields to a setting of the caller. A session that exists already (a notebook's, spark-submit's) is used as
it is and left running.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sowctl.errors import ConfigError, UsageError
from sowctl.spark.java import Java, find_java
from sowctl.spark.masters import require_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
_LEAVE = 20.0  # seconds that the virtual machine gets to end by itself
_TAIL = 2000  # characters of its last words that an error repeats
_LOGGING = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex{{5}}
"""


@contextmanager
def open_session(
    master: str = LOCAL,
    *,
    environment: Mapping[str, str],
    conf: Mapping[str, str] | None = None,
    app: str = "sowctl",
    verbose: bool = False,
) -> Iterator[SparkSession]:
    """A session on ``master`` with the data sources of this package registered; stopped at the end of the ``with``.

    ``environment`` stands for the process's (JAVA_HOME, PATH, ...); ``conf`` are Spark's settings and win over ours;
    with ``verbose`` Spark's own messages reach stderr, otherwise they are dropped. Afterwards no virtual machine is
    left. Raises UsageError SOW-SPK-001 (pyspark is missing), ConfigError SOW-SPK-002 (no Java), SOW-SPK-003 (Spark
    did not start) or SOW-SPK-004 (no master answers).
    """
    require_pyspark()
    from pyspark import SparkContext

    with ExitStack() as ends:
        if SparkContext._active_spark_context is not None or "PYSPARK_GATEWAY_PORT" in environment:
            spark = _join(conf or {})
        else:
            spark = _start(ends, master, environment, dict(conf or {}), app, verbose)
        _register(spark)
        yield spark


def require_pyspark() -> None:
    """Raise UsageError SOW-SPK-001 where the extra ``spark`` is not installed."""
    from importlib.util import find_spec

    for module in ("pyspark", "pyarrow"):
        if find_spec(module) is None:
            raise UsageError(
                "SOW-SPK-001",
                f"the Spark pipeline needs {module}, which is not installed",
                hint="pip install 'sowctl[spark]'",
            )


def settings(master: str, work: Path, given: Mapping[str, str], *, app: str, verbose: bool) -> dict[str, str]:
    """Spark's settings for a session; ``work`` is its own directory. What is ``given`` wins."""
    level = "warn" if verbose else "error"
    (work / "log4j2.properties").write_text(_LOGGING.format(level=level), "utf-8")
    made = {
        "spark.master": master,
        "spark.app.name": app,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
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
    made |= given
    options = [f"-Dlog4j2.configurationFile={(work / 'log4j2.properties').as_uri()}"]
    if given.get("spark.driver.extraJavaOptions"):
        options.append(given["spark.driver.extraJavaOptions"])
    made["spark.driver.extraJavaOptions"] = " ".join(options)
    return made


def is_local(master: str) -> bool:
    """Whether the executors are threads of the session's own virtual machine."""
    return master.split("[", 1)[0] == "local"


def _join(conf: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _start(
    ends: ExitStack, master: str, environment: Mapping[str, str], conf: dict[str, str], app: str, verbose: bool
) -> SparkSession:
    from pyspark.sql import SparkSession

    require_master(conf.get("spark.master", master))
    java = find_java(environment)
    master = conf.pop("spark.master", master)
    work = Path(tempfile.mkdtemp(prefix="sowctl-spark-"))
    ends.callback(shutil.rmtree, work, ignore_errors=True)
    made = settings(master, work, conf, app=app, verbose=verbose)
    if "SPARK_LOCAL_DIRS" in environment and "spark.local.dir" not in conf:
        made.pop("spark.local.dir", None)
    ends.enter_context(_interrupt_as_before())
    with _process_environment(_variables(java, master, environment)):
        gateway = _launch(made, work, verbose)
        ends.callback(_end_machine, gateway)
        try:
            context = _context(made, gateway)
        except Exception as error:
            raise _not_started(_words(error), work) from error
    ends.callback(_quietly, context.stop)
    try:
        spark = SparkSession.builder.getOrCreate()
    except Exception as error:
        # a master that took the connection and never the application: Spark has given up and stopped meanwhile
        raise _not_started(_words(error), work) from error
    ends.callback(_quietly, spark.stop)
    return spark


def _variables(java: Java, master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What pyspark and its launcher take from the process's environment and nowhere else."""
    variables = {"JAVA_HOME": str(java.home)}
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


@contextmanager
def _process_environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _launch(made: Mapping[str, str], work: Path, verbose: bool) -> Any:
    """Start the virtual machine; what it and its launcher say goes to a file unless ``verbose``."""
    from pyspark import SparkConf, java_gateway
    from pyspark.errors import PySparkRuntimeError

    launch: Any = java_gateway.launch_gateway
    conf = SparkConf(loadDefaults=False).setAll(list(made.items()))
    with (work / "stderr").open("wb") as said:
        streams = {"stdout": subprocess.DEVNULL, "stderr": None if verbose else said}
        try:
            return launch(conf, popen_kwargs=streams)
        except PySparkRuntimeError as error:
            raise _not_started(str(error), work) from error


def _context(made: Mapping[str, str], gateway: Any) -> Any:
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(loadDefaults=False).setAll(list(made.items()))
    return SparkContext(conf=conf, gateway=gateway)


def _words(error: Exception) -> str:
    """What an error says; one of the virtual machine's cannot be asked any more when that has ended."""
    raised = getattr(error, "java_exception", None)
    try:
        return str(error if raised is None else raised.getMessage())
    except Exception:
        return "the virtual machine ended"


def _not_started(what: str, work: Path) -> ConfigError:
    said = ""
    with suppress(OSError):
        said = (work / "stderr").read_text("utf-8", "replace")[-_TAIL:].strip()
    return ConfigError(
        "SOW-SPK-003",
        "Spark did not start: " + what.strip().split("\n")[0],
        excerpt=said or None,
        hint="sowctl doctor shows which Java is used; --verbose shows all that Spark says",
    )


def _register(spark: SparkSession) -> None:
    from sowctl.spark import register

    register(spark)


def _quietly(stop: Callable[[], object]) -> None:
    with suppress(Exception):
        # a machine that died on the way cannot be asked to stop; what follows ends it
        stop()


def _end_machine(gateway: Any) -> None:
    """Let go of the virtual machine and see it end, so that none is left behind and another may be started."""
    from pyspark import SparkContext

    if SparkContext._gateway is gateway:
        SparkContext._gateway = None
        SparkContext._jvm = None
    with suppress(Exception):
        gateway.shutdown()
    process: subprocess.Popen[bytes] | None = gateway.proc
    if process is None:
        return
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()  # the machine ends when this pipe does
    for end in (process.terminate, process.kill):
        try:
            process.wait(_LEAVE)
            return
        except subprocess.TimeoutExpired:
            end()
    process.wait()


@contextmanager
def _interrupt_as_before() -> Iterator[None]:
    """pyspark puts its own handler in place of the caller's; give that one back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

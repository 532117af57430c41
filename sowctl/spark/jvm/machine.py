"""The Java virtual machine that a session runs in: starting it with its environment, reporting its failures, ending it.

Called only by :mod:`sowctl.spark.sessions`, for sessions that it starts itself. sowctl-spark(7), SESSIONS AND JAVA,
specifies a quiet start, an unchanged interrupt handler of the caller, and that nothing remains afterwards.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sowctl.errors import ConfigError

STATES_VARIABLE = "SOWCTL_SPARK_STATES"
"""The variable with which a local session passes its Python processes the directory for copies of states, which is
removed with the session."""
_EXIT_TIMEOUT_SECONDS = 20.0  # before the virtual machine is terminated
_HOME_DIRECTORIES = ("bin", "sbin", "jars", "data", "licenses")  # linked from an installed Spark
_TAIL_CHARACTERS = 2000  # of its output that an error quotes


@contextmanager
def set_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process during the block, and restore the former values afterwards."""
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


def build_quick_home(directory: Path) -> dict[str, str]:
    """Create ``directory`` as a Spark home, of symbolic links, whose Python processes start quickly; return its
    variable.

    Spark puts ``python/lib/pyspark.zip`` of its home first on the import path of these processes. The archive contains
    no compiled modules, so each process compiles pyspark again: 0.8 s of processor time instead of 0.2. If the home
    lacks the file, they import the installed pyspark, which is the same code. Returns {} if Spark is not part of the
    Python package, or if links cannot be created.
    """
    spec = find_spec("pyspark")
    installed = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    if not installed or not (installed[0] / "jars").is_dir():
        return {}
    try:
        directory.mkdir()
        for name in _HOME_DIRECTORIES:
            if (installed[0] / name).exists():
                (directory / name).symlink_to(installed[0] / name)
    except OSError:
        # Without the links, Spark uses its own home and only starts more slowly.
        return {}
    return {"SPARK_HOME": str(directory)}


def start_machine(made: Mapping[str, str], work: Path, verbose: bool) -> Any:
    """Start the virtual machine; unless ``verbose``, the stderr of it and its launcher is written to a file.

    ``made`` are Spark's settings, ``work`` is the directory of the session. Raises ConfigError ``SOW-SPK-003`` if it
    does not start.
    """
    from pyspark import SparkConf, java_gateway
    from pyspark.errors import PySparkRuntimeError

    launch: Any = java_gateway.launch_gateway
    conf = SparkConf(loadDefaults=False).setAll(list(made.items()))
    with (work / "stderr").open("wb") as said:
        streams = {"stdout": subprocess.DEVNULL, "stderr": None if verbose else said}
        try:
            return launch(conf, popen_kwargs=streams)
        except PySparkRuntimeError as error:
            raise build_start_error(str(error), work) from error


def format_error(error: Exception) -> str:
    """Format an error; for an error of a virtual machine that has ended, the message is no longer available."""
    raised = getattr(error, "java_exception", None)
    try:
        return str(error if raised is None else raised.getMessage())
    except Exception:
        return "the Java process ended"


def build_start_error(what: str, work: Path) -> ConfigError:
    """Build the error ``SOW-SPK-003``: the reason, with the end of the virtual machine's output in ``work``."""
    said = ""
    with suppress(OSError):
        said = (work / "stderr").read_text("utf-8", "replace")[-_TAIL_CHARACTERS:].strip()
    return ConfigError(
        "SOW-SPK-003",
        "Spark did not start: " + what.strip().split("\n")[0],
        excerpt=said or None,
        hint="sowctl doctor shows which Java is used; --verbose prints all output of Spark",
    )


def end_machine(gateway: Any) -> None:
    """Release the virtual machine and wait until it has ended, so that another may be started."""
    from pyspark import SparkContext

    # pyspark would reuse this gateway for the next session, although the machine has ended.
    if SparkContext._gateway is gateway:
        SparkContext._gateway = None
        SparkContext._jvm = None
    with suppress(Exception):
        gateway.shutdown()
    process: subprocess.Popen[bytes] | None = gateway.proc
    # The process that started the machine ends it.
    if process is None:
        return
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()  # the machine ends when this pipe is closed
    # First wait, so that Spark's shutdown hooks run and remove its scratch files; then terminate, then kill.
    for end in (process.terminate, process.kill):
        try:
            process.wait(_EXIT_TIMEOUT_SECONDS)
            return
        except subprocess.TimeoutExpired:
            end()
    process.wait()


@contextmanager
def restore_interrupt_handler() -> Iterator[None]:
    """Restore the caller's interrupt handler after the block, because pyspark replaces it."""
    # Signal handlers can be set only in the main thread, so in other threads pyspark changes none.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

"""The Java virtual machine that a session runs in: starting it with its environment, reporting its failures, ending it.

Called by :mod:`sowctl.spark.sessions` alone, for a session that it starts itself. sowctl-spark(7), SESSIONS AND JAVA,
says what is promised: a quiet start, the caller's interrupt handler as it was, and nothing left behind.
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
"""The variable by which a local session tells its Python processes where copies of states go: they end with it."""
_EXIT_TIMEOUT_SECONDS = 20.0  # seconds that the virtual machine gets to end by itself
_HOME_DIRECTORIES = ("bin", "sbin", "jars", "data", "licenses")  # what of an installed Spark is linked
_TAIL_CHARACTERS = 2000  # characters of its last words that an error repeats


@contextmanager
def set_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables in the environment of this process during the block; the former ones come back."""
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
    """The variable for a Spark whose Python processes begin quickly: of links in ``directory``, which is made.

    Spark puts ``python/lib/pyspark.zip`` of its home before everything else that these processes import. There are no
    compiled modules in it, so each of them compiles pyspark anew: 0.8 s of processor time instead of 0.2. Where the
    home has no such file, they import the pyspark that is installed, which is the same. Gives nothing where Spark does
    not come with the Python package, or where no links can be made.
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
        # Without links only time is lost: Spark finds its own home.
        return {}
    return {"SPARK_HOME": str(directory)}


def start_machine(made: Mapping[str, str], work: Path, verbose: bool) -> Any:
    """Start the virtual machine; what it and its launcher say goes to a file unless ``verbose``.

    ``made`` are Spark's settings, ``work`` the directory of the session. Raises ConfigError ``SOW-SPK-003``.
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
    """Format an error; one of the virtual machine's cannot be asked any more when that has ended."""
    raised = getattr(error, "java_exception", None)
    try:
        return str(error if raised is None else raised.getMessage())
    except Exception:
        return "the Java process ended"


def build_start_error(what: str, work: Path) -> ConfigError:
    """The error ``SOW-SPK-003``: why Spark did not start, with the last words of the machine in ``work``."""
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
    """Let go of the virtual machine and see it end, so that none is left behind and another may be started."""
    from pyspark import SparkContext

    # pyspark keeps the machine for the next session, which would then talk to one that has ended.
    if SparkContext._gateway is gateway:
        SparkContext._gateway = None
        SparkContext._jvm = None
    with suppress(Exception):
        gateway.shutdown()
    process: subprocess.Popen[bytes] | None = gateway.proc
    # A machine that this process did not start is ended by the process that did.
    if process is None:
        return
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()  # the machine ends when this pipe does
    # By itself first, so that Spark's own shutdown runs and removes its scratch files; then ever harder.
    for end in (process.terminate, process.kill):
        try:
            process.wait(_EXIT_TIMEOUT_SECONDS)
            return
        except subprocess.TimeoutExpired:
            end()
    process.wait()


@contextmanager
def restore_interrupt_handler() -> Iterator[None]:
    """Restore the caller's interrupt handler after the block: pyspark replaces it by its own."""
    # Python sets signal handlers in the main thread only; elsewhere pyspark has changed nothing either.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

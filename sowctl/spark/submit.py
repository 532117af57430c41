"""Running jobs with spark-submit: the line, the archive for executors, and the script that spark-submit starts
(``sowctl-pipeline-submit-args(1)``).

As a script this is the program itself: it runs ``sowctl pipeline ...`` in the session that spark-submit has prepared.
"""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import sowctl
from sowctl.errors import UsageError
from sowctl.spark.jvm.masters import is_local
from sowctl.spark.jvm.packed_environment import build_driver_variables, build_packed_settings

if TYPE_CHECKING:
    from sowctl.spark.jvm.java import Java

_DATA_SUFFIXES = (".py", ".lark", ".json", ".typed")


def write_archive(path: Path) -> int:
    """Put the package into a zip file; returns how many files it has."""
    root = Path(sowctl.__file__).parent
    files = sorted(
        file for file in root.rglob("*") if file.suffix in _DATA_SUFFIXES and "__pycache__" not in file.parts
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, Path("sowctl") / file.relative_to(root))
    return len(files)


def build_command_line(
    archive: Path,
    job: Sequence[str],
    master: str,
    conf: Mapping[str, str],
    config: Path | None,
    *,
    java: Java | None,
    environment: Mapping[str, str],
    packed: Path | None = None,
) -> str:
    """The line for a shell, which needs nothing of what this process found: Java, Spark, Python, the configuration.

    ``config`` and ``java`` are what was found, None for nothing; ``environment`` stands for the process's. ``packed``
    is an environment that executors unpack and run, None where they have one. Raises UsageError ``SOW-SPK-071`` for a
    job that does not exist, ``SOW-SPK-135`` for an environment that nothing would unpack.
    """
    from sowctl.spark.jobs.job_table import JOBS

    # On the command line export-journal is an option of export and no job with a name of its own.
    names = [one.name for one in JOBS if one.name != "export-journal"]
    if not job or job[0] not in names:
        raise UsageError("SOW-SPK-071", f"unknown job {(job[0] if job else '')!r}", hint="jobs: " + ", ".join(names))
    # the launcher looks for no Java but in JAVA_HOME and on PATH, and starts none that lacks a module
    variables = {} if java is None else {"JAVA_HOME": str(java.home)}
    variables |= _interpreter(master, environment) if packed is None else build_driver_variables(environment)
    # Client mode: the driver, which writes stores and journals, runs on this machine.
    words = [_find_launcher(environment), "--master", master, "--deploy-mode", "client"]
    shipped = {} if packed is None else build_packed_settings(packed, master)
    for name, value in {**shipped, **conf}.items():
        words += ["--conf", f"{name}={value}"]
    words += ["--py-files", str(archive), str(Path(__file__).absolute())]
    words += ["--config", str(config.absolute())] if config is not None else []
    settings = [f"{name}={_quote_value(name, value)}" for name, value in variables.items()]
    return " ".join([*settings, shlex.join([*words, "pipeline", *job])])


def _quote_value(name: str, value: str) -> str:
    """A value for a shell; of PATH, what is put in front of the one that the shell has."""
    return f'{shlex.quote(value.split(os.pathsep)[0])}:"$PATH"' if name == "PATH" else shlex.quote(value)


def _find_launcher(environment: Mapping[str, str]) -> str:
    """spark-submit: by name where a shell finds it, else the one beside this Python or in its pyspark."""
    if shutil.which("spark-submit", path=environment.get("PATH", os.defpath)) is not None:
        return "spark-submit"
    from importlib.util import find_spec

    package = find_spec("pyspark")
    places = [Path(sys.executable).parent / "spark-submit"]
    if package is not None and package.origin is not None:
        places.append(Path(package.origin).parent / "bin" / "spark-submit")
    return next((str(place) for place in places if os.access(place, os.X_OK)), "spark-submit")


def _interpreter(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variable that makes spark-submit run this Python, where ``python3`` of the shell is another installation."""
    if "PYSPARK_PYTHON" in environment or "PYSPARK_DRIVER_PYTHON" in environment:
        return {}
    found = shutil.which("python3", path=environment.get("PATH", os.defpath))
    if found is not None and Path(found).absolute().parent == Path(sys.executable).absolute().parent:
        return {}
    # other machines have their own Python; the executors of a local master are threads here
    return {"PYSPARK_PYTHON" if is_local(master) else "PYSPARK_DRIVER_PYTHON": sys.executable}


def main() -> None:
    """Run a job as the script that spark-submit starts."""
    # named as text: the pipeline knows nothing of the command line, except that this script is one
    importlib.import_module("sowctl.cli.main").run()


if __name__ == "__main__":
    main()

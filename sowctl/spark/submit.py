"""Running jobs with spark-submit: the command line, the archive for executors, and the script that spark-submit runs
(``sowctl-pipeline-submit-args(1)``).

Run as a script, this module is the program itself: it runs ``sowctl pipeline ...`` in the session of spark-submit.
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
    """Write the package to a zip file and return the number of files in it."""
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
    """Return a command line for a shell, in which Java, Spark, Python and the configuration are spelled out.

    ``config`` and ``java`` are those that were found, or None; ``environment`` replaces that of the process.
    ``packed`` is an environment that executors unpack and run, None if they have one. Raises UsageError
    ``SOW-SPK-071`` if the job does not exist, and ``SOW-SPK-135`` if ``packed`` cannot be used.
    """
    from sowctl.spark.jobs.job_table import JOBS

    # On the command line, export-journal is an option of export, not a job.
    names = [one.name for one in JOBS if one.name != "export-journal"]
    if not job or job[0] not in names:
        raise UsageError("SOW-SPK-071", f"unknown job {(job[0] if job else '')!r}", hint="jobs: " + ", ".join(names))
    # The launcher finds Java only by JAVA_HOME and PATH, and fails with a Java that lacks a module.
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
    """Quote a value for a shell; for PATH, prepend its first directory to the PATH of that shell."""
    return f'{shlex.quote(value.split(os.pathsep)[0])}:"$PATH"' if name == "PATH" else shlex.quote(value)


def _find_launcher(environment: Mapping[str, str]) -> str:
    """Return spark-submit if it is on PATH, otherwise the path of the one next to this Python or in its pyspark."""
    if shutil.which("spark-submit", path=environment.get("PATH", os.defpath)) is not None:
        return "spark-submit"
    from importlib.util import find_spec

    package = find_spec("pyspark")
    places = [Path(sys.executable).parent / "spark-submit"]
    if package is not None and package.origin is not None:
        places.append(Path(package.origin).parent / "bin" / "spark-submit")
    return next((str(place) for place in places if os.access(place, os.X_OK)), "spark-submit")


def _interpreter(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that makes spark-submit run this Python, if ``python3`` on PATH is another installation."""
    if "PYSPARK_PYTHON" in environment or "PYSPARK_DRIVER_PYTHON" in environment:
        return {}
    found = shutil.which("python3", path=environment.get("PATH", os.defpath))
    if found is not None and Path(found).absolute().parent == Path(sys.executable).absolute().parent:
        return {}
    # Other machines have their own Python, but a local master runs its executors on this machine.
    return {"PYSPARK_PYTHON" if is_local(master) else "PYSPARK_DRIVER_PYTHON": sys.executable}


def main() -> None:
    """Run a job; the entry point of the script that spark-submit runs."""
    # Imported by name, because the pipeline must not depend on the command line, except in this script.
    importlib.import_module("sowctl.cli.main").run()


if __name__ == "__main__":
    main()

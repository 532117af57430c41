"""Running jobs with spark-submit: the line, the archive for executors, and the script that spark-submit starts
(``sowctl-pipeline-submit-args(1)``).

As a script this is the program itself: it runs ``sowctl pipeline ...`` in the session that spark-submit has prepared.
"""

from __future__ import annotations

import importlib
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import sowctl
from sowctl.errors import UsageError

_DATA = (".py", ".lark", ".json", ".typed")


def write_archive(path: Path) -> int:
    """Put the package into a zip file; returns how many files it has."""
    root = Path(sowctl.__file__).parent
    files = sorted(file for file in root.rglob("*") if file.suffix in _DATA and "__pycache__" not in file.parts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, Path("sowctl") / file.relative_to(root))
    return len(files)


def command_line(archive: Path, job: Sequence[str], master: str, conf: Mapping[str, str], config: str | None) -> str:
    """The line for a shell. Raises UsageError ``SOW-SPK-071`` for a job that does not exist."""
    from sowctl.spark.jobs.table import JOBS

    names = [one.name for one in JOBS if one.name != "export-journal"]
    if not job or job[0] not in names:
        raise UsageError("SOW-SPK-071", f"there is no job {job[0] if job else ''!r}", hint="jobs: " + ", ".join(names))
    words = ["spark-submit", "--master", master, "--deploy-mode", "client"]
    for name, value in conf.items():
        words += ["--conf", f"{name}={value}"]
    words += ["--py-files", str(archive), str(Path(__file__).absolute())]
    words += ["--config", str(Path(config).absolute())] if config is not None else []
    return shlex.join([*words, "pipeline", *job])


def main() -> None:
    """What spark-submit starts."""
    # named as text: the pipeline knows nothing of the command line, except that this script is one
    importlib.import_module("sowctl.cli.main").run()


if __name__ == "__main__":
    main()

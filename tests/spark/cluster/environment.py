"""A packed environment for executors, made of what this process has installed: nothing is fetched from anywhere.

What ``pip install sowctl pyarrow`` and ``venv-pack`` make (sowctl-spark(7), ON A CLUSTER), of the tree under test.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
UNUSED = ("*/pyarrow/include/*", "*/pyarrow/tests/*", "*/libarrow_flight*", "*/__pycache__/*")
"""What no executor needs: a third of pyarrow."""


def make(directory: Path) -> Path:
    """A virtual environment in ``directory`` with the tree's package, what it requires and pyarrow; its site-packages.

    Without pyspark, which executors have, and without pip."""
    venv.create(directory, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(directory), "platbase": str(directory)}))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for one in _closure([*project["dependencies"], "pyarrow"]).values():
        _copy(one, site)
    shutil.copytree(ROOT / "sowctl", site / "sowctl", ignore=shutil.ignore_patterns("__pycache__"))
    return site


def pack(directory: Path, archive: Path) -> Path:
    """The environment as an archive, which Spark unpacks."""
    command = [sys.executable, "-m", "venv_pack", "-q", "-p", str(directory), "-o", str(archive)]
    excluded = [word for pattern in UNUSED for word in ("--exclude", pattern)]
    subprocess.run([*command, "--compress-level", "1", *excluded], check=True)
    return archive


def make_older(site: Path) -> None:
    """Turn the package into one of an older release, which knows less."""
    (site / "sowctl" / "version.py").write_text('VERSION = "0.0.9"\nRELEASED = "2026-01-01"\n', "utf-8")
    (site / "sowctl" / "spark" / "samecode.py").unlink()


def _closure(requirements: list[str]) -> dict[str, Distribution]:
    """The distributions that are needed, by name, with those that they need."""
    found: dict[str, Distribution] = {}
    wanted = [Requirement(one) for one in requirements]
    while wanted:
        one = wanted.pop()
        if one.name.lower() in found or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        found[one.name.lower()] = made = distribution(one.name)
        wanted += [Requirement(text) for text in made.requires or ()]
    return found


def _copy(made: Distribution, site: Path) -> None:
    """The modules of a distribution; scripts lie elsewhere, and are not called here."""
    for file in made.files or ():
        if file.parts[0] != ".." and "__pycache__" not in file.parts:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target)

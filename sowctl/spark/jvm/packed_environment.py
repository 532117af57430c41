"""Executors that have nothing but Spark unpack an environment (sowctl-spark(7), ON A CLUSTER).

Spark runs the Python of a data source by one name on the driver, where it plans, and on executors. So that name is
``python3``, and PATH says which it is: on the driver the one that runs there, on executors the one that was unpacked.
Called by the session and by the line for spark-submit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from sowctl.errors import UsageError
from sowctl.spark.jvm.masters import is_local

UNPACK_DIRECTORY = "environment"
"""The directory, in that of an executor, into which Spark unpacks the environment."""
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def build_packed_settings(packed: Path, master: str) -> dict[str, str]:
    """Spark's settings for executors that have nothing but Spark: a packed environment, which each of them unpacks.

    Raises UsageError ``SOW-SPK-135`` for a local master, and where there is no such file.
    """
    if is_local(master):
        raise UsageError(
            "SOW-SPK-135",
            f"the executors of {master} run in this process, which does not unpack an environment",
            hint="remove the option, or use the master of a cluster",
        )
    if not packed.is_file():
        raise UsageError(
            "SOW-SPK-135",
            "the packed environment does not exist",
            place=str(packed),
            hint="create it with venv-pack -o",
        )
    return {
        "spark.archives": f"{packed.absolute()}#{UNPACK_DIRECTORY}",
        # By PATH and not by its path: Spark runs Python by one name on the driver, where it plans, and on executors. It
        # hands this PATH to both, and Python finds its library by it: the driver, which has nothing unpacked, goes on
        # to its own directory.
        "spark.executorEnv.PATH": f"./{UNPACK_DIRECTORY}/bin:{_own_directory()}:{_DEFAULT_PATH}",
    }


def build_driver_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Build variables that make the driver run this Python, and executors the ``python3`` that they unpack."""
    here = _own_directory()
    path = environment.get("PATH", os.defpath)
    return {
        "PATH": path if path.split(os.pathsep)[0] == here else f"{here}{os.pathsep}{path}",
        "PYSPARK_PYTHON": "python3",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _own_directory() -> str:
    """Return the directory of this process's Python."""
    return str(Path(sys.executable).absolute().parent)

"""Packed Python environments for executors that have only Spark (sowctl-spark(7), ON A CLUSTER).

Spark uses the same command for the Python of a data source on the driver, where it plans, and on executors. So the
command is ``python3``, and PATH selects it: on the driver the running Python, on executors the unpacked one.
Called by the session and for the command line of spark-submit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from sowctl.errors import UsageError
from sowctl.spark.jvm.masters import is_local

UNPACK_DIRECTORY = "environment"
"""The directory into which Spark unpacks the environment, relative to that of an executor."""
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def build_packed_settings(packed: Path, master: str) -> dict[str, str]:
    """Return Spark's settings with which each executor unpacks and uses a packed environment.

    Raises UsageError ``SOW-SPK-135`` for a local master, and if the file does not exist.
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
        # By PATH, because Spark runs Python by the same name on the driver, where it plans, and on executors. Both get
        # this PATH, and Python finds its library by it. The driver has no unpacked directory, so it uses the next one,
        # which is its own.
        "spark.executorEnv.PATH": f"./{UNPACK_DIRECTORY}/bin:{_own_directory()}:{_DEFAULT_PATH}",
    }


def build_driver_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Build variables with which the driver runs this Python, and executors the ``python3`` that they unpack."""
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

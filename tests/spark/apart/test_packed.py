"""What a driver says to executors that have nothing but Spark."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from sowctl.errors import UsageError
from sowctl.spark.jvm.packed_environment import build_driver_variables, build_packed_settings
from sowctl.spark.submit import build_command_line


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    (tmp_path / "environment.tar.gz").touch()
    return tmp_path / "environment.tar.gz"


def test_the_line_ships_the_environment_and_runs_one_name_everywhere(packed: Path) -> None:
    line = build_command_line(
        packed.with_name("sowctl.zip"),
        ["rebuild", "orders"],
        "spark://h:7077",
        {"spark.executor.memory": "2g"},
        None,
        java=None,
        environment={"PATH": "/usr/bin:/bin"},
        packed=packed,
    )
    here = Path(sys.executable).absolute().parent
    # the shell's own PATH stays behind ours, wherever the line is run
    assert line.startswith(f'PATH={here}:"$PATH" PYSPARK_PYTHON=python3 PYSPARK_DRIVER_PYTHON={sys.executable} ')
    words = shlex.split(line)
    settings = dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "--conf")
    assert settings == {
        "spark.archives": f"{packed}#environment",
        "spark.executorEnv.PATH": f"./environment/bin:{here}:/usr/local/bin:/usr/bin:/bin",
        "spark.executor.memory": "2g",
    }


def test_the_variables_of_a_session(packed: Path) -> None:
    here = str(Path(sys.executable).absolute().parent)
    assert build_driver_variables({"PATH": "/bin"})["PATH"] == f"{here}{os.pathsep}/bin"
    assert build_driver_variables({"PATH": f"{here}:/bin"})["PATH"] == f"{here}:/bin"


def test_an_environment_that_nothing_unpacks_is_refused(packed: Path) -> None:
    for path, master in ((packed, "local[2]"), (packed.with_name("none.tar.gz"), "yarn")):
        with pytest.raises(UsageError) as caught:
            build_packed_settings(path, master)
        assert caught.value.code == "SOW-SPK-135"

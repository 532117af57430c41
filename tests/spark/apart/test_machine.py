"""The home that Spark is started from: links to all that is installed, but the zip that slows its Python processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.spark import sessions
from sowctl.spark.jvm import machine
from sowctl.spark.jvm.machine import build_quick_home


@pytest.mark.skipif(machine.find_spec("pyspark") is None, reason="pyspark is not installed")
def test_links_to_what_is_installed_and_no_zip(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert build_quick_home(home) == {"SPARK_HOME": str(home)}
    assert (home / "bin" / "spark-submit").is_file()
    assert any((home / "jars").glob("spark-core*.jar"))
    assert not (home / "python").exists()


def test_nothing_where_spark_did_not_come_with_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert build_quick_home(tmp_path / "home") == {}
    assert not (tmp_path / "home").exists()


def test_nothing_where_no_links_can_be_made(tmp_path: Path) -> None:
    assert build_quick_home(tmp_path / "absent" / "home") == {}


@pytest.mark.skipif(machine.find_spec("pyspark") is None, reason="pyspark is not installed")
@pytest.mark.parametrize("active", [False, True])
def test_under_spark_submit_a_session_that_was_begun_here_ends_here(
    monkeypatch: pytest.MonkeyPatch, active: bool
) -> None:
    from pyspark import SparkContext

    class Joined:
        stopped = 0

        def stop(self) -> None:
            self.stopped += 1

    joined = Joined()
    monkeypatch.setattr(sessions, "_join", lambda conf: joined)
    monkeypatch.setattr(sessions, "_register", lambda spark: None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", object() if active else None)
    with sessions.open_session(environment={"PYSPARK_GATEWAY_PORT": "1"}) as spark:
        assert spark is joined and not joined.stopped
    assert joined.stopped == (0 if active else 1)

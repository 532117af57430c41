"""The home that Spark is started from: links to all that is installed, but the zip that slows its Python processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.spark.jvm import machine
from sowctl.spark.jvm.machine import quick_home


@pytest.mark.skipif(machine.find_spec("pyspark") is None, reason="pyspark is not installed")
def test_links_to_what_is_installed_and_no_zip(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert quick_home(home) == {"SPARK_HOME": str(home)}
    assert (home / "bin" / "spark-submit").is_file()
    assert any((home / "jars").glob("spark-core*.jar"))
    assert not (home / "python").exists()


def test_nothing_where_spark_did_not_come_with_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert quick_home(tmp_path / "home") == {}
    assert not (tmp_path / "home").exists()


def test_nothing_where_no_links_can_be_made(tmp_path: Path) -> None:
    assert quick_home(tmp_path / "absent" / "home") == {}

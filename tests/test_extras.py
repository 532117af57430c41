"""Hints at extras name the interpreter that runs, or pipx where it made the environment."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from sowctl.errors import ConfigError
from sowctl.extras import build_missing_package_error, format_install_hint

EXTRAS = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
NAMES = sorted(set(EXTRAS) - {"all", "test"})


@pytest.mark.parametrize("extra", NAMES)
def test_the_hint_names_the_environment(extra: str, tmp_path: Path) -> None:
    hint = format_install_hint(extra, python="/a b/python", prefix=str(tmp_path))
    assert hint == f"'/a b/python' -m pip install 'sowctl[{extra}]'"
    (tmp_path / "pipx_metadata.json").write_text("{}")
    hint = format_install_hint(extra, python="/a b/python", prefix=str(tmp_path))
    packages = [re.split(r"[<>=]", requirement)[0] for requirement in EXTRAS[extra]]
    assert hint == f"pipx inject sowctl {' '.join(packages)}"


def test_all_has_every_extra() -> None:
    assert EXTRAS["all"] == [f"sowctl[{','.join(name for name in EXTRAS if name in NAMES)}]"]


def test_the_error_has_a_status_of_its_own() -> None:
    error = build_missing_package_error("SOW-EXC-001", "parquet requires the package pyarrow", "arrow", more="or csv")
    assert isinstance(error, ConfigError) and error.exit_status == 12
    assert "sowctl[arrow]" in str(error.hint) and str(error.hint).endswith("; or csv")

"""Configurations that use every section in unusual legal spellings: no error, and they load, print and load again."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.config import show
from sowctl.config.difference import find_differences
from sowctl.config.instance import load_instance
from sowctl.config.load import read_document
from sowctl.config.validate import validate_config

GOOD = sorted((Path(__file__).parent / "good").glob("*.xml"))
VARIABLES = {"TN": "t", "DATA_DIR": "/d"}


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_nothing_stops_an_instance(path: Path, tmp_path: Path) -> None:
    assert validate_config(path, environment=VARIABLES) == []
    assert load_instance(path, environment=VARIABLES).name
    item = show.build_typed_items(read_document(path, environment=VARIABLES))
    again = tmp_path / "again.xml"
    again.write_text("\n".join(show.format_xml(item)), encoding="utf-8")
    assert list(find_differences(item, show.build_typed_items(read_document(again, environment=VARIABLES)))) == []

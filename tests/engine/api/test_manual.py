"""Every example of sowctl-python(7) is part of the program in tests/support; the program runs, and mypy checks it."""

from __future__ import annotations

import importlib
import re
import textwrap
from pathlib import Path

import pytest

import sowctl
from tests.support import program
from tests.support.instances import topic_xml

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "man" / "sowctl-python.7").read_text()
CONFIG = f"""<AMPSConfig><Name>shop</Name><SOW>{topic_xml("orders", key="/orderId")}
<Queue><Name>work</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic></Queue></SOW>
<TransactionLog><JournalDirectory>journal</JournalDirectory>
<Topic><Name>orders</Name><MessageType>json</MessageType></Topic>
<Topic><Name>events</Name><MessageType>json</MessageType></Topic></TransactionLog></AMPSConfig>"""


def test_every_example_of_the_page_is_a_part_of_the_program() -> None:
    source = Path(program.__file__).read_text()
    blocks = re.findall(r"^\.nf\n(.*?)^\.fi$", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) > 12
    for block in blocks:
        example = block.replace("\\-", "-").removeprefix("import sowctl\n\n").rstrip("\n")
        assert any(text + "\n" in source for text in (textwrap.indent(example, "    "), example)), example


def test_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sowctl.xml").write_text(CONFIG)
    program.first()
    program.creating()
    with sowctl.open("sowctl.xml") as instance:
        topic = instance.topic("orders")
        program.publishing(instance)
        program.querying(topic)
        program.comparing(topic)
        program.following(topic)
        program.following_async(topic)
        program.working(instance)
        program.deleting(topic)
        program.failing(instance)
        printed = capsys.readouterr().out
        assert "SOW-ENG-012 did you mean orders?" in printed
        assert instance.queue("work").depth().pending == 0
        pytest.importorskip("pyarrow")
        program.handing_on(instance)
        pytest.importorskip("duckdb")
        Path("fills.csv").write_text("orderId,qty\n10,200\n")
        program.asking_sql(instance)
        assert "IBM 200" in capsys.readouterr().out
        pytest.importorskip("pandas")
        program.arrow(topic)
        assert "_sow_key: decimal128(20, 0)" in capsys.readouterr().out


def test_every_name_of_the_package_is_on_the_page() -> None:
    text = PAGE.replace("\\-", "-")
    names = [name for name in sowctl.__all__ if not name.startswith("__")]
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def test_every_import_that_a_page_shows_works() -> None:
    pytest.importorskip("pyspark")
    shown: set[tuple[str, str]] = set()
    for page in [*(ROOT / "man").iterdir(), ROOT / "README.md"]:
        text = page.read_text(encoding="utf-8").replace("\\-", "-")
        for module, names in re.findall(r"^from (sowctl[\w.]*) import ([\w, ]+)$", text, re.MULTILINE):
            shown.update((module, name.strip()) for name in names.split(","))
    assert ("sowctl.errors", "MissingError") in shown
    assert [one for one in sorted(shown) if not hasattr(importlib.import_module(one[0]), one[1])] == []

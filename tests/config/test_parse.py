"""Texts of all kinds: one element for each tag that the scan found, or a finding; the same for loading and checking."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.config.document import SourceFile
from sowctl.config.load import load, load_collecting
from sowctl.config.parse import Broken, parse_elements, refuse
from sowctl.config.scan import scan
from sowctl.errors import ConfigError

ROOT = Path(__file__).parents[1]
FILES = sorted([*ROOT.rglob("*.xml"), *ROOT.parent.joinpath("samples").rglob("*.xml")])
PIECES = (
    *("<a>", "<a>", "</a>", "</a>", "<a", ">", "/>", "<b/>", "<b c='", 'd="', "'", '"', "=", "&", ";", "&lt;", "&amp;"),
    *("&#38;", "&#x3C;", "&#0;", "&#xFFFE;", "&#xD800;", "&#13;", "&none;", "<!--", "-->", "--", "<![CDATA[", "]]>"),
    *(
        "<?p",
        "?>",
        "<?xml",
        " ",
        "\n",
        "\t",
        "\r",
        "x",
        "é",
        "\N{GRINNING FACE}",
        "<é/>",
        "<n:a/>",
        "xmlns='u'",
        "xml:",
    ),
    *("\x00", "\x0b", "\x7f", "\x85", "\ufffe", "\u2028", "\ud800", "<!DOCTYPE a>", "]]", "<", "\ufeff"),
)


def _reads_or_is_refused(text: str) -> None:
    for wrap in (False, True):
        source = SourceFile("f.xml", text, {})
        found = scan(text)
        try:
            refuse(source, found)
            assert len(parse_elements(source, found, wrap)) == len(found.tags)
        except Broken as broken:
            assert broken.finding.place.line >= 1


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_texts_of_odd_pieces_read_the_reads_or_is_refused(pieces: list[str]) -> None:
    _reads_or_is_refused("".join(pieces))
    _reads_or_is_refused(f"<r>{''.join(pieces)}</r>")


@given(st.sampled_from(FILES), st.integers(0, 1 << 30))
def test_damaged_configurations_read_the_reads_or_is_refused(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    text = path.read_bytes().decode("utf-8", "replace").replace("\r", "")
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(PIECES) + text[at + chance.randrange(3) :]
    _reads_or_is_refused(text)


def test_loading_for_a_command_and_for_checks_gives_one_document(write: Callable[..., Path]) -> None:
    part = write("<Topic mode='x'><Name>b</Name><Key>/id</Key></Topic>", "part.xml")
    path = write(f"<AMPSConfig><Name>a ${{N}}</Name><SOW><Include>{part.name}</Include></SOW></AMPSConfig>")
    loaded = load(path, environment={"N": "1"})
    checked, _ = load_collecting(path, environment={"N": "1"})
    assert checked is not None

    def told(document: Any) -> list[tuple[Any, ...]]:
        return [(node.tag, node.text, dict(node.attributes), node.place, node.inner) for node in document.top.walk()]

    assert told(loaded) == told(checked)
    broken = write("<AMPSConfig><Name>a & b</Name></AMPSConfig>", "broken.xml")
    with pytest.raises(ConfigError, match="not well-formed XML: xmlParseEntityRef: no name"):
        load(broken, environment={})

"""If the standard library's parser accepts a text, its result equals that of the XML library."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.config.document import SourceFile
from sowctl.config.load import load_for_checks, read_document
from sowctl.config.parse import (
    MAX_PLAIN_BYTES,
    Broken,
    check_limits,
    decode_file,
    parse_elements,
    parse_plain_elements,
)
from sowctl.config.scan import scan_tags
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


def _seen(elements: list[Any]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    # an element of the library has None for no text
    return [(one.text or "", one.tail or "", list(one.attrib.items())) for one in elements]


def _read(text: str, *, wrap: bool, plain: bool) -> list[tuple[str, str, list[tuple[str, str]]]] | str:
    source = SourceFile("f.xml", text, {})
    found = scan_tags(text)
    try:
        check_limits(source, found)
        return _seen(parse_elements(source, found, wrap, plain=plain))
    except Broken as broken:
        return repr(broken.finding)


def _same(text: str) -> None:
    for wrap in (False, True):
        assert _read(text, wrap=wrap, plain=True) == _read(text, wrap=wrap, plain=False)


def test_every_configuration_here_reads_the_same() -> None:
    answered = 0
    for path in FILES:
        try:
            text = decode_file(path.read_bytes(), "f.xml")
        except Broken:
            continue
        _same(text)
        answered += parse_plain_elements(text.encode()) is not None
    assert answered > len(FILES) * 0.8 > 600


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_texts_of_odd_pieces_read_the_same(pieces: list[str]) -> None:
    _same("".join(pieces))
    _same(f"<r>{''.join(pieces)}</r>")


@given(st.sampled_from(FILES), st.integers(0, 1 << 30))
def test_damaged_configurations_read_the_same(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    text = path.read_bytes().decode("utf-8", "replace").replace("\r", "")
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(PIECES) + text[at + chance.randrange(3) :]
    _same(text)


@pytest.mark.parametrize(
    "text",
    [
        "<a xmlns='u'/>",
        "<n:a/>",
        "<a n:b='1'/>",
        "<é/>",
        "<a é='1'/>",
        "<a><?p?></a>",
        "<!DOCTYPE a><a/>",
        "<a>&none;</a>",
        "<a>" + " " * MAX_PLAIN_BYTES + "</a>",
        "<a>",
        "",
    ],
)
def test_what_is_not_plain_is_declined(text: str) -> None:
    assert parse_plain_elements(text.encode()) is None


def test_what_is_plain() -> None:
    elements = parse_plain_elements(
        b"<a b='&lt;\n1' c='2'> x<!-- n -->y <![CDATA[<z>]]>&#33;<d/>t<!-- -->u<e>v</e></a>"
    )
    assert elements is not None
    assert _seen(elements) == [
        (" xy <z>!", "", [("b", "< 1"), ("c", "2")]),
        ("", "tu", []),
        ("v", "", []),
    ]


def test_loading_for_a_command_and_for_checks_gives_one_document(write: Callable[..., Path]) -> None:
    part = write("<Topic mode='x'><Name>b</Name><Key>/id</Key></Topic>", "part.xml")
    path = write(f"<AMPSConfig><Name>a ${{N}}</Name><SOW><Include>{part.name}</Include></SOW></AMPSConfig>")
    loaded = read_document(path, environment={"N": "1"})
    checked, _ = load_for_checks(path, environment={"N": "1"})
    assert checked is not None

    def told(document: Any) -> list[tuple[Any, ...]]:
        return [(node.tag, node.text, dict(node.attributes), node.place, node.inner) for node in document.top.walk()]

    assert told(loaded) == told(checked)
    broken = write("<AMPSConfig><Name>a & b</Name></AMPSConfig>", "broken.xml")
    with pytest.raises(ConfigError, match="xmlParseEntityRef") as caught:
        read_document(broken, environment={})
    assert (caught.value.code, str(caught.value.place).startswith(f"{broken}:1:")) == ("SOW-CFG-001", True)

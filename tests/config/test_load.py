"""Loading: encodings, positions, fragments (sow-config(5))."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.config.load import load_for_checks, read_document
from sowctl.errors import ConfigError

Write = Callable[..., Path]


def refused(path: Path, **options: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_document(path, environment={}, **options)  # type: ignore[arg-type]
    return caught.value


def test_every_element_knows_its_line_and_column(write: Write) -> None:
    path = write("<AMPSConfig><!-- <a> --><Name>x</Name>\n\t<SOW\n a='>'><Topic/></SOW>\n<![CDATA[<b>]]></AMPSConfig>")
    top = read_document(path, environment={}).top
    places = [(node.tag, node.place.line, node.place.column, node.place.element) for node in top.walk()]
    assert places == [
        ("AMPSConfig", 1, 1, "/AMPSConfig"),
        ("Name", 1, 25, "/AMPSConfig/Name"),
        ("SOW", 2, 2, "/AMPSConfig/SOW"),
        ("Topic", 3, 8, "/AMPSConfig/SOW/Topic"),
    ]
    assert top.children[1].attributes == {"a": ">"}
    assert top.text == "<b>"


def test_neighbours_of_one_name_are_numbered(write: Write) -> None:
    top = read_document(write("<AMPSConfig><A/><B/><A/></AMPSConfig>"), environment={}).top
    assert [child.place.element for child in top.children] == ["/AMPSConfig/A[1]", "/AMPSConfig/B", "/AMPSConfig/A[2]"]


@pytest.mark.parametrize(
    ("inner", "line", "column", "expected"),
    [
        ("/a = 'x", 1, 6, (1, 14)),
        ("\n   /a\n   = 'x'", 2, 4, (3, 4)),
        ("/a &gt; &#x31; AND x", 1, 6, (1, 17)),
        ("<![CDATA[/a < 1]]> AND x", 1, 12, (1, 32)),
        ("/a <!-- why --> = x", 1, 5, (1, 25)),
        ("${V} AND x", 1, 1, (1, 9)),
        ("${V} AND x", 1, 6, (1, 14)),
        ("/a = 'x'", 1, 9, (1, 17)),
    ],
)
def test_a_place_in_a_text_is_a_place_in_the_file(
    write: Write, inner: str, line: int, column: int, expected: tuple[int, int]
) -> None:
    path = write(f"<Filter>{inner}</Filter>")
    top = read_document(path, environment={"V": "/abc"}, fragment=True).top
    (node,) = (node for node in top.walk() if node.tag == "Filter")
    place = node.find_place_in_text(line, column)
    assert (place.line, place.column) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_encodings_that_are_read(write: Write, encoding: str) -> None:
    declared = encoding.removesuffix("-sig")
    text = f"<?xml version='1.0' encoding='{declared}'?>\r\n<AMPSConfig>\r\n<Name>é</Name></AMPSConfig>"
    top = read_document(write(text.encode(encoding)), environment={}).top
    assert top.find_text("Name") == "é"
    assert top.children[0].place.line == 3


@pytest.mark.parametrize(
    "data",
    [
        b"<AMPSConfig>\n<Name>\xe9</Name></AMPSConfig>",
        b"<?xml version='1.0' encoding='utf-7'?>\n<AMPSConfig/>",
        b"<?xml version='1.0' encoding='no-such'?>\n<AMPSConfig/>",
        b"\xff\xfe<\x00A\x00\x00\xd8",
    ],
)
def test_encodings_that_are_refused(write: Write, data: bytes) -> None:
    error = refused(write(data))
    assert error.code == "SOW-CFG-014"
    assert error.exit_status == 4


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "empty"),
        ("<AMPSConfig>\n<Name>x\n</AMPSConfig>", 2, "<Name>"),
        ("<AMPSConfig>\n&nbsp;</AMPSConfig>", 2, "nbsp"),
        ("<AMPSConfig/>\n<AMPSConfig/>", 2, "Extra content"),
        ("<AMPSConfig>\n<!-- a -- b --></AMPSConfig>", 2, "hyphen"),
        ("<AMPSConfig>\n<a b=c/></AMPSConfig>", 2, "not well-formed"),
        ("<AMPSConfig>\n\x00</AMPSConfig>", 2, "not well-formed"),
        ("<a><![CDATA[", 1, "not well-formed"),
    ],
)
def test_what_is_not_well_formed(write: Write, text: str, line: int, words: str) -> None:
    error = refused(write(text))
    assert error.code == "SOW-CFG-001"
    assert f":{line}:" in (error.place or "")
    assert words in error.message


def test_the_root_must_be_the_configuration(write: Write) -> None:
    assert refused(write("<Config/>")).code == "SOW-CFG-005"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.xml").code == "SOW-CFG-030"
    with pytest.raises(ConfigError):
        load_for_checks(tmp_path, environment={})


class TestFragments:
    def test_entries_are_put_where_they_belong(self, write: Write) -> None:
        path = write("<?xml version='1.0'?>\n<Topic/>\n<View/><Action/>")
        top = read_document(path, environment={}, fragment=True).top
        assert [(node.tag, [child.tag for child in node.children]) for node in top.children] == [
            ("SOW", ["Topic", "View"]),
            ("Actions", ["Action"]),
        ]
        assert top.children[0].children[0].place.line == 2

    def test_beside_sections_nothing_is_moved(self, write: Write) -> None:
        top = read_document(write("<SOW/><Queue/>"), environment={}, fragment=True).top
        assert [node.tag for node in top.children] == ["SOW", "Queue"]

    def test_a_whole_configuration_is_no_fragment(self, write: Write) -> None:
        assert not read_document(write("<AMPSConfig/>"), environment={}, fragment=True).fragment

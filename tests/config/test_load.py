"""Loading: encodings, includes, variables, places, fragments (sow-config(5))."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from sowctl.config.load import load, load_collecting
from sowctl.errors import ConfigError

Write = Callable[..., Path]


def refused(path: Path, **options: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(path, environment={}, **options)  # type: ignore[arg-type]
    return caught.value


def test_every_element_knows_its_line_and_column(write: Write) -> None:
    path = write("<AMPSConfig><!-- <a> --><Name>x</Name>\n\t<SOW\n a='>'><Topic/></SOW>\n<![CDATA[<b>]]></AMPSConfig>")
    top = load(path, environment={}).top
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
    top = load(write("<AMPSConfig><A/><B/><A/></AMPSConfig>"), environment={}).top
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
    top = load(path, environment={"V": "/abc"}, fragment=True).top
    (node,) = (node for node in top.walk() if node.tag == "Filter")
    place = node.place_in_text(line, column)
    assert (place.line, place.column) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_encodings_that_are_read(write: Write, encoding: str) -> None:
    declared = encoding.removesuffix("-sig")
    text = f"<?xml version='1.0' encoding='{declared}'?>\r\n<AMPSConfig>\r\n<Name>é</Name></AMPSConfig>"
    top = load(write(text.encode(encoding)), environment={}).top
    assert top.value("Name") == "é"
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
        ("<AMPSConfig>\n<Name>x\n</AMPSConfig>", 2, "<Name> is not closed"),
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
        load_collecting(tmp_path, environment={})


class TestVariables:
    def test_defines_win_over_the_environment(self, write: Write) -> None:
        path = write("<AMPSConfig><Name a='${A}'>${A}-${B}</Name></AMPSConfig>")
        name = load(path, environment={"A": "1", "B": "2"}, defines={"B": "3"}).top.children[0]
        assert (name.text, name.attributes) == ("1-3", {"a": "1"})

    def test_values_are_not_expanded_again_and_are_no_markup(self, write: Write) -> None:
        path = write("<AMPSConfig><Name>${A}</Name></AMPSConfig>")
        name = load(path, environment={"A": "${A}<b>&amp;"}).top.children[0]
        assert (name.text, name.children) == ("${A}<b>&amp;", ())

    def test_built_in(self, write: Write, tmp_path: Path) -> None:
        path = write("<AMPSConfig><Name>${AMPS_CONFIG_DIRECTORY}|${AMPS_CONFIG_PATH}</Name></AMPSConfig>")
        assert load(path, environment={"AMPS_CONFIG_PATH": "x"}).top.value("Name") == f"{tmp_path}|{path}"

    def test_all_undefined_ones_are_found(self, write: Write) -> None:
        path = write("<AMPSConfig>\n<Name>${A}</Name>\n<Group>${B}${C}</Group></AMPSConfig>")
        assert refused(path).code == "SOW-CFG-009"
        document, findings = load_collecting(path, environment={})
        assert document is not None
        assert [(finding.id, finding.place.line) for finding in findings] == [("X009", 2), ("X009", 3), ("X009", 3)]
        assert "-DA=" in (findings[0].hint or "")


class TestInclude:
    def test_the_root_of_the_other_file_stands_in_its_place(self, write: Write) -> None:
        write("<Topic>\n<Name>${N}</Name></Topic>", "parts/topic.xml")
        write("<SOW>\n<Include>topic.xml</Include><Topic/></SOW>", "parts/sow.xml")
        path = write("<AMPSConfig><Include comment='true'>\n parts/sow.xml </Include></AMPSConfig>")
        sow = load(path, environment={"N": "orders"}).top.children[0]
        first, second = sow.children
        assert first.value("Name") == "orders"
        assert Path(first.place.file) == path.parent / "parts/topic.xml"
        assert (first.children[0].place.line, first.children[0].place.column) == (2, 1)
        assert first.children[0].place.element == "/AMPSConfig/SOW/Topic[1]/Name"
        assert Path(second.place.file) == path.parent / "parts/sow.xml"

    def test_variables_may_name_the_file(self, write: Write) -> None:
        write("<Name>x</Name>", "name.xml")
        path = write("<AMPSConfig><Include>${AMPS_CONFIG_DIRECTORY}/name.xml</Include></AMPSConfig>")
        assert load(path, environment={}).top.value("Name") == "x"

    def test_one_in_a_comment_is_none(self, write: Write) -> None:
        path = write("<AMPSConfig><!-- <Include>none.xml</Include> --><Name>x</Name></AMPSConfig>")
        assert load(path, environment={}).top.value("Name") == "x"

    @pytest.mark.parametrize("chain", [["config.xml"], ["a.xml", "config.xml"], ["a.xml", "b.xml", "a.xml"]])
    def test_a_cycle_is_refused(self, write: Write, chain: list[str]) -> None:
        for name, target in pairwise(chain):
            write(f"<A><Include>{target}</Include></A>", name)
        error = refused(write(f"<AMPSConfig><Include>{chain[0]}</Include></AMPSConfig>"))
        assert error.code == "SOW-CFG-007"
        assert " -> " in error.message

    @pytest.mark.parametrize("target", ["../outside.xml", "/etc/hostname", "link.xml", "", "directory", "none.xml"])
    def test_what_lies_outside_or_is_no_file_is_refused(self, write: Write, tmp_path: Path, target: str) -> None:
        (tmp_path / "outside.xml").write_text("<Name>secret</Name>")
        path = write(f"<AMPSConfig><Include>{target}</Include></AMPSConfig>", "conf/config.xml")
        (tmp_path / "conf/link.xml").symlink_to(tmp_path / "outside.xml")
        (tmp_path / "conf/directory").mkdir()
        error = refused(path)
        assert error.code == "SOW-CFG-006"
        assert "secret" not in str(error)

    def test_a_missing_one_does_not_hide_other_errors(self, write: Write) -> None:
        path = write("<AMPSConfig><Logging><Include>no.xml</Include></Logging><Name>${A}</Name></AMPSConfig>")
        document, findings = load_collecting(path, environment={})
        assert [finding.id for finding in findings] == ["X016", "X006", "X009"]
        assert document is not None
        assert not document.top.children[0].complete

    def test_the_depth_is_limited(self, write: Write) -> None:
        for number in range(12):
            write(f"<A><Include>{number + 1}.xml</Include></A>", f"{number}.xml")
        assert refused(write("<AMPSConfig><Include>0.xml</Include></AMPSConfig>")).code == "SOW-CFG-021"

    def test_the_depth_of_all_files_together_is_limited(self, write: Write) -> None:
        for number in range(9):
            write("<a>" * 60 + f"<Include>{number + 1}.xml</Include>" + "</a>" * 60, f"{number}.xml")
        error = refused(write("<AMPSConfig><Include>0.xml</Include></AMPSConfig>"))
        assert (error.code, "64 levels" in error.message) == ("SOW-CFG-021", True)

    def test_the_size_is_limited(self, write: Write) -> None:
        write(f"<A>{'x' * 5000}</A>", "a.xml")
        threshold = "<ConfigCycleDetectionThreshold>4KB</ConfigCycleDetectionThreshold>"
        error = refused(write(f"<AMPSConfig>{threshold}<Include>a.xml</Include></AMPSConfig>"))
        assert error.code == "SOW-CFG-008"


class TestFragments:
    def test_entries_are_put_where_they_belong(self, write: Write) -> None:
        path = write("<?xml version='1.0'?>\n<Topic/>\n<View/><Action/>")
        top = load(path, environment={}, fragment=True).top
        assert [(node.tag, [child.tag for child in node.children]) for node in top.children] == [
            ("SOW", ["Topic", "View"]),
            ("Actions", ["Action"]),
        ]
        assert top.children[0].children[0].place.line == 2

    def test_beside_sections_nothing_is_moved(self, write: Write) -> None:
        top = load(write("<SOW/><Queue/>"), environment={}, fragment=True).top
        assert [node.tag for node in top.children] == ["SOW", "Queue"]

    def test_a_whole_configuration_is_no_fragment(self, write: Write) -> None:
        assert not load(write("<AMPSConfig/>"), environment={}, fragment=True).fragment

"""The files of one loading: variables, includes, and the limits that they share (sow-config(5))."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from sowctl.config.load import load_for_checks, read_document
from sowctl.errors import ConfigError

Write = Callable[..., Path]


def refused(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_document(path, environment={})
    return caught.value


class TestVariables:
    def test_defines_win_over_the_environment(self, write: Write) -> None:
        path = write("<AMPSConfig><Name a='${A}'>${A}-${B}</Name></AMPSConfig>")
        name = read_document(path, environment={"A": "1", "B": "2"}, defines={"B": "3"}).top.children[0]
        assert (name.text, name.attributes) == ("1-3", {"a": "1"})

    def test_values_are_not_expanded_again_and_are_no_markup(self, write: Write) -> None:
        path = write("<AMPSConfig><Name>${A}</Name></AMPSConfig>")
        name = read_document(path, environment={"A": "${A}<b>&amp;"}).top.children[0]
        assert (name.text, name.children) == ("${A}<b>&amp;", ())

    def test_built_in(self, write: Write, tmp_path: Path) -> None:
        path = write("<AMPSConfig><Name>${AMPS_CONFIG_DIRECTORY}|${AMPS_CONFIG_PATH}</Name></AMPSConfig>")
        assert read_document(path, environment={"AMPS_CONFIG_PATH": "x"}).top.find_text("Name") == f"{tmp_path}|{path}"

    def test_all_undefined_ones_are_found(self, write: Write) -> None:
        path = write("<AMPSConfig>\n<Name>${A}</Name>\n<Group>${B}${C}</Group></AMPSConfig>")
        assert refused(path).code == "SOW-CFG-009"
        document, findings = load_for_checks(path, environment={})
        assert document is not None
        assert [(finding.id, finding.place.line) for finding in findings] == [("X009", 2), ("X009", 3), ("X009", 3)]
        # publish, query and the like have no -D, and their error has this hint, too.
        before, commands = str(findings[0].hint).split("; ")
        assert "environment" in before and commands.endswith(" -DA=VALUE")
        assert all(name in commands for name in ("validate", "lint", "config show"))


class TestInclude:
    def test_the_root_of_the_other_file_stands_in_its_place(self, write: Write) -> None:
        write("<Topic>\n<Name>${N}</Name></Topic>", "parts/topic.xml")
        write("<SOW>\n<Include>topic.xml</Include><Topic/></SOW>", "parts/sow.xml")
        path = write("<AMPSConfig><Include comment='true'>\n parts/sow.xml </Include></AMPSConfig>")
        sow = read_document(path, environment={"N": "orders"}).top.children[0]
        first, second = sow.children
        assert first.find_text("Name") == "orders"
        assert Path(first.place.file) == path.parent / "parts/topic.xml"
        assert (first.children[0].place.line, first.children[0].place.column) == (2, 1)
        assert first.children[0].place.element == "/AMPSConfig/SOW/Topic[1]/Name"
        assert Path(second.place.file) == path.parent / "parts/sow.xml"

    def test_variables_may_name_the_file(self, write: Write) -> None:
        write("<Name>x</Name>", "name.xml")
        path = write("<AMPSConfig><Include>${AMPS_CONFIG_DIRECTORY}/name.xml</Include></AMPSConfig>")
        assert read_document(path, environment={}).top.find_text("Name") == "x"

    def test_one_in_a_comment_is_none(self, write: Write) -> None:
        path = write("<AMPSConfig><!-- <Include>none.xml</Include> --><Name>x</Name></AMPSConfig>")
        assert read_document(path, environment={}).top.find_text("Name") == "x"

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
        document, findings = load_for_checks(path, environment={})
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

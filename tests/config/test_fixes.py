"""Fixes correct the findings of their rules, and change nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.config.fixes import (
    FIXES,
    Edit,
    build_removal_fix,
    build_rename_fix,
    build_word_fix,
    fix_plain_text,
    fix_text,
)
from sowctl.config.lint import lint_files
from sowctl.findings import Finding, Level, Place

CASES = Path(__file__).parent / "rules/cases"


def judged(text: str, name: str) -> list[Finding]:
    (linted,) = lint_files([Path(name)], environment={"HOME": "/home/amps"}, given={name: text.encode()})
    return linted.findings


def applied(text: str, edits: list[Edit]) -> str:
    for edit in reversed(edits):
        text = text[: edit.begin] + edit.text + text[edit.end :]
    return text


@pytest.mark.parametrize("rule", FIXES)
def test_a_fix_mends_the_bad_file_of_its_rule(rule: str) -> None:
    path = CASES / f"{rule}-bad.xml"
    before = path.read_bytes().decode()
    found = fix_text(before, "a.xml", lambda text: [one for one in judged(text, "a.xml") if one.id in FIXES])
    assert found.mended[rule]
    left = judged(found.text, "a.xml")
    assert not [one for one in left if one.id in FIXES]
    # A module whose name is now correct is checked for its options.
    assert {one.id for one in left} <= {one.id for one in judged(before, "a.xml")} | {"S057"}
    # A corrected text is not changed again.
    assert fix_text(found.text, "a.xml", lambda text: judged(text, "a.xml")) == fix_text(
        found.text, "a.xml", lambda _: []
    )


def test_an_element_inside_of_the_same_name_keeps_its_own_end() -> None:
    text = "<Topic><!-- </Topic> --><Topic>a</Topic ><Topic/></Topic>"
    inner = text.index("<Topic>a")
    assert applied(text, build_rename_fix("Topic", "Name")(text, inner)) == text.replace(
        "<Topic>a</Topic ", "<Name>a</Name "
    )
    outer = applied(text, build_rename_fix("Topic", "T")(text, 0))
    assert outer == "<T><!-- </Topic> --><Topic>a</Topic ><Topic/></T>"
    empty = text.index("<Topic/>")
    assert applied(text, build_rename_fix("Topic", "Name")(text, empty)) == text.replace("<Topic/>", "<Name/>")
    assert build_rename_fix("Topic", "Name")("<Topic>", 0) == []


def test_words_are_replaced_only_where_they_are_all() -> None:
    fix = build_word_fix("Level", {"debug": "info"})
    assert applied("<Level> debug\n</Level>", fix("<Level> debug\n</Level>", 0)) == "<Level> info\n</Level>"
    assert fix("<Level>debug,error</Level>", 0) == fix("<Level>${L}</Level>", 0) == []


def test_a_removed_element_takes_its_line_along() -> None:
    fix = build_removal_fix("F")
    assert applied("<a>\n  <F>x</F>\n</a>", fix("<a>\n  <F>x</F>\n</a>", 6)) == "<a>\n</a>"
    assert applied("<a><F>x</F></a>", fix("<a><F>x</F></a>", 3)) == "<a></a>"
    assert fix("<F><b/></F>", 0) == []


@given(st.text(st.sampled_from("\r\n\ufeffab")))
def test_plain_text_is_what_the_loader_reads(text: str) -> None:
    expected = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    assert applied(text, fix_plain_text(text, 0)) == expected


def test_a_change_that_brings_in_an_error_is_not_made() -> None:
    def judge(text: str) -> list[Finding]:
        level = Level.INFO if "json" in text else Level.ERROR
        return [Finding("D010", level, Place("a.xml", 1, 1), "m")]

    text = "<Protocol>json</Protocol>"
    found = fix_text(text, "a.xml", judge)
    assert (found.text, sum(found.mended.values())) == (text, 0)
    # A finding in another file, such as an included one, is not a finding of this file.
    assert fix_text(text, "b.xml", judge).text == text

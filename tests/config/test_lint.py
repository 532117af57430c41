"""lint as a library: choosing rules, files and directories, and comments that switch rules off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.config.lint import choose_rules, lint_files
from sowctl.config.rules.table import index_rules
from sowctl.errors import UsageError
from sowctl.findings import Level

Write = Callable[..., Path]
OLD = "<TopicDefinition><Topic>{}</Topic><MessageType>json</MessageType></TopicDefinition>"
NOT_ADVICE = choose_rules((), ("B",))


def told(*paths: Path | str, rules: frozenset[str] = NOT_ADVICE, least: Level = Level.INFO) -> list[tuple[str, int]]:
    results = lint_files(paths, environment={}, rules=rules, least=least)
    return [(finding.id, finding.place.line or 0) for result in results for finding in result.findings]


def test_ids_prefixes_titles_and_codes_choose_rules() -> None:
    assert choose_rules(["S022"]) == choose_rules(["persistent-without-file"]) == choose_rules(["sow-cfg-122"])
    assert choose_rules(["D"]) == {rule for rule in index_rules() if rule[0] == "D"}
    assert choose_rules(["S04,S05 F001"]) == {r for r in index_rules() if r.startswith(("S04", "S05"))} | {"F001"}
    assert choose_rules() == choose_rules(["all"]) == set(index_rules())
    assert choose_rules(["D"], ["D002", "D01"]) == {f"D00{n}" for n in (1, 3, 4, 5, 6, 7, 8, 9)} | {"D020"}
    assert choose_rules(["D001"], ["D"]) == set()


@pytest.mark.parametrize("word", ["S999", "persistent", "SOW-CFG", "Q"])
def test_a_word_that_names_no_rule_is_refused(word: str) -> None:
    with pytest.raises(UsageError) as refused:
        choose_rules([word])
    assert (refused.value.code, refused.value.exit_status) == ("SOW-CFG-050", 2)


def test_a_misspelled_title_has_a_suggestion() -> None:
    with pytest.raises(UsageError) as refused:
        choose_rules((), ["persistent-without-fiel"])
    assert refused.value.hint == "did you mean persistent-without-file?"


def test_only_chosen_rules_and_severities_are_reported(instance: Write) -> None:
    path = instance(OLD.format("a"))
    assert told(path) == [("D001", 4), ("S022", 4), ("D002", 4)]
    assert told(path, least=Level.WARNING) == [("D001", 4), ("S022", 4)]
    assert told(path, least=Level.ERROR) == [("S022", 4)]
    assert told(path, rules=choose_rules(["D"])) == [("D001", 4), ("D002", 4)]


class TestDirectories:
    def test_every_xml_below_in_order(self, write: Write, tmp_path: Path) -> None:
        for name in ("b.xml", "a.xml", "deep/er/c.xml", "notes.txt"):
            write("<AMPSConfig><Name>x</Name></AMPSConfig>", name)
        names = [result.path.relative_to(tmp_path).as_posix() for result in lint_files([tmp_path], environment={})]
        assert names == ["a.xml", "b.xml", "deep/er/c.xml"]

    def test_an_included_file_is_judged_where_it_is_included(self, write: Write, tmp_path: Path) -> None:
        write(OLD.format("a"), "a-topic.xml")
        write("<AMPSConfig><Name>x</Name><SOW><Include>a-topic.xml</Include></SOW></AMPSConfig>", "main.xml")
        (result,) = lint_files([tmp_path], environment={}, rules=choose_rules(["S", "X005"]))
        assert result.path.name == "main.xml"
        assert [(f.id, Path(f.place.file).name) for f in result.findings] == [("S022", "a-topic.xml")]

    def test_a_named_file_is_judged_by_itself_too(self, write: Write, tmp_path: Path) -> None:
        part = write(OLD.format("a"), "part.xml")
        assert told(part, rules=choose_rules(["X005"])) == [("X005", 1)]

    def test_a_file_named_twice_is_judged_once(self, write: Write, tmp_path: Path) -> None:
        path = write("<AMPSConfig/>", "a.xml")
        assert told(path, tmp_path, path) == [("S004", 1)]

    def test_a_directory_without_any_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as refused:
            told(tmp_path)
        assert refused.value.code == "SOW-CFG-051"


def test_an_unreadable_file_does_not_hide_the_others(write: Write, tmp_path: Path) -> None:
    missing, good = lint_files([tmp_path / "gone.xml", write("<AMPSConfig/>")], environment={}, rules=NOT_ADVICE)
    assert (missing.readable, [f.id for f in missing.findings]) == (False, ["SOW-CFG-030"])
    assert (good.readable, [f.id for f in good.findings]) == (True, ["S004"])


def test_a_choice_of_rules_does_not_hide_that_nothing_was_judged(write: Write) -> None:
    assert told(write("<AMPSConfig>"), rules=choose_rules(["B"])) == [("X001", 1)]


class TestComments:
    def test_before_the_root_for_the_whole_file(self, write: Write) -> None:
        body = f"<AMPSConfig><Name>x</Name>\n<SOW>{OLD.format('a')}</SOW></AMPSConfig>"
        assert told(write(body)) == [("D001", 2), ("S022", 2), ("D002", 2)]
        assert told(write(f"<!-- sowctl: ignore D001 S022 because of old times -->{body}")) == [("D002", 2)]
        assert told(write(f"<?xml version='1.0'?><!-- sowctl: ignore D, persistent-without-file -->{body}")) == []

    def test_for_the_following_element_and_all_inside(self, instance: Write) -> None:
        entries = f"<!-- sowctl: ignore D -->\n{OLD.format('a')}\n{OLD.format('b')}"
        assert told(instance(entries)) == [("S022", 5), ("D001", 6), ("S022", 6), ("D002", 6)]

    def test_several_comments_before_one_element(self, instance: Write) -> None:
        entries = f"<!-- sowctl: ignore D001 --><!-- a word --><!-- sowctl: ignore D002 -->\n{OLD.format('a')}"
        assert told(instance(entries)) == [("S022", 5)]

    def test_inside_an_element_for_one_of_its_children(self, instance: Write) -> None:
        entries = "<TopicDefinition>\n<!-- sowctl: ignore D002 --><Topic>a</Topic>\n<MessageType>jsn</MessageType>"
        assert told(instance(f"{entries}<FileName>f</FileName></TopicDefinition>")) == [("D001", 4), ("R001", 6)]

    def test_an_empty_element_ends_where_it_begins(self, write: Write) -> None:
        text = "<AMPSConfig><Name>x</Name>\n<!-- sowctl: ignore X012 --><SOW a='1'/>\n<Actions a='1'/></AMPSConfig>"
        assert told(write(text)) == [("X012", 3)]

    def test_a_comment_at_the_end_counts_for_nothing(self, write: Write) -> None:
        text = (
            "<AMPSConfig a='1'><Name>x</Name>\n<!-- sowctl: ignore X012 -->\n</AMPSConfig>\n<!-- sowctl: ignore X -->"
        )
        assert told(write(text)) == [("X012", 1), ("SOW-CFG-041", 2), ("SOW-CFG-041", 4)]

    def test_other_comments_and_character_data_are_no_directives(self, write: Write) -> None:
        text = "<!-- about sowctl: ignore X012 --><AMPSConfig a='1'><Name>x</Name><Description><![CDATA[" \
               "<!-- sowctl: ignore X012 -->]]></Description></AMPSConfig>"  # fmt: skip
        assert told(write(text)) == [("X012", 1)]

    def test_an_unknown_word_is_said_and_the_known_one_counts(self, write: Write) -> None:
        path = write("<!-- sowctl: ignore X012 S999 -->\n<AMPSConfig a='1'><Name>x</Name></AMPSConfig>")
        assert told(path) == [("SOW-CFG-040", 1)]
        assert told(write("<!-- sowctl: ignore -->\n<AMPSConfig><Name>x</Name></AMPSConfig>")) == [("SOW-CFG-040", 1)]
        assert told(write("<!-- sowctl: disable S -->\n<AMPSConfig><Name>x</Name></AMPSConfig>")) == [
            ("SOW-CFG-040", 1)
        ]

    def test_each_word_can_be_unused_by_itself(self, write: Write) -> None:
        path = write("<!-- sowctl: ignore X012, S022 -->\n<AMPSConfig a='1'><Name>x</Name></AMPSConfig>")
        assert told(path) == [("SOW-CFG-041", 1)]

    def test_a_rule_that_was_not_asked_for_is_not_called_unused(self, write: Write) -> None:
        path = write("<!-- sowctl: ignore S022 -->\n<AMPSConfig><Name>x</Name></AMPSConfig>")
        assert told(path, rules=choose_rules((), ["S022", "B"])) == []
        assert told(path, least=Level.WARNING) == []

    def test_a_comment_counts_in_its_own_file_only(self, write: Write) -> None:
        write(OLD.format("a"), "a.xml")
        main = (
            "<!-- sowctl: ignore D001 -->\n<AMPSConfig><Name>x</Name><SOW><Include>a.xml</Include></SOW></AMPSConfig>"
        )
        path = write(main)
        wanted = choose_rules(["D001", "SOW-CFG-041"])
        assert told(path, rules=wanted) == [("SOW-CFG-041", 1), ("D001", 1)]
        write(f"<!-- sowctl: ignore D001 -->{OLD.format('a')}", "a.xml")
        assert told(path, rules=wanted) == [("SOW-CFG-041", 1)]

"""explain: codes, prefixes of codes, rules; suggestions for unknown ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sowctl.codes import ERROR_AREAS, load_codes
from sowctl.config.rules.table import index_rules
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml


def test_a_code(cli: Cli) -> None:
    result = cli("explain", "SOW-JRN-030")
    assert result.status == 0
    lines = result.out.splitlines()
    assert lines[0] == f"SOW-JRN-030 {load_codes()['SOW-JRN-030'].title}"
    assert lines[1].startswith("exit status 11: ")
    assert lines[3].startswith("Why: ") and " ".join(load_codes()["SOW-JRN-030"].why.split()[:5]) in lines[3]
    assert any(line.startswith("Do: ") for line in lines)
    assert lines[-1] == "See: sow-journal(5)"
    assert max(map(len, lines)) <= 100
    assert "``" not in result.out


@pytest.mark.parametrize("word", ["sow-jrn-030", "JRN-030", "jrn-030"])
def test_letter_case_and_the_first_word_do_not_matter(cli: Cli, word: str) -> None:
    assert cli("explain", word).out == cli("explain", "SOW-JRN-030").out


def test_several_codes_in_the_order_given(cli: Cli) -> None:
    out = cli("explain", "SOW-STO-024", "SOW-CLI-070").out
    assert out == cli("explain", "SOW-STO-024").out + "\n" + cli("explain", "SOW-CLI-070").out


def test_a_finding_without_status(cli: Cli) -> None:
    second = cli("explain", "SOW-JRN-040").out.splitlines()[1]
    assert "finding" in second and not second.startswith("exit status")


def test_a_beginning_lists_its_codes(cli: Cli) -> None:
    rows = cli("explain", "SOW-STO").out.splitlines()
    assert [row.split()[0] for row in rows] == [code for code in load_codes() if code.startswith("SOW-STO")]
    assert rows[0] == f"SOW-STO-001  {load_codes()['SOW-STO-001'].title}"
    assert {row[:10] for row in cli("explain", "sto-02").out.splitlines()} == {"SOW-STO-02"}


def test_without_a_code_the_areas(cli: Cli) -> None:
    rows = [row.split(maxsplit=2) for row in cli("explain").out.splitlines()]
    assert [row[0] for row in rows] == list(ERROR_AREAS)
    assert sum(int(row[1]) for row in rows) == len(load_codes()) + len(index_rules())


@pytest.mark.parametrize("word", ["SOW-CFG-122", "S022", "persistent-without-file"])
def test_rules_are_explained_from_their_own_pages(cli: Cli, word: str) -> None:
    lines = cli("explain", word).out.splitlines()
    assert lines[0] == "SOW-CFG-122 persistent-without-file (rule S022)"
    assert lines[1].startswith("exit status 4: ")
    assert lines[-1] == "See: sowctl-lint(7)"


def test_every_code_and_rule_can_be_explained_as_json(cli: Cli) -> None:
    rows = [json.loads(line) for line in cli("explain", "--format", "json").out.splitlines()]
    assert len({row["code"] for row in rows}) == len(rows) == len(load_codes()) + len(index_rules())
    assert {row["rule"] for row in rows} - {None} == set(index_rules())
    for row in rows:
        assert list(row) == ["code", "exit", "title", "why", "action", "page", "rule"]
        assert all(row[name] for name in ("title", "why", "action", "page"))
    assert (
        cli("explain", "SOW-CLI-070", "-F", "json").out
        == json.dumps(rows[[r["code"] for r in rows].index("SOW-CLI-070")]) + "\n"
    )


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("SOW-STO-299", "did you mean SOW-STO-0"),
        ("SOW-ST0-024", "did you mean SOW-STO-024"),
        ("nonsense", "sowctl explain lists the areas"),
        ("", "sowctl explain lists the areas"),
        ("SOW-", "sowctl explain lists the areas"),
        ("SOW-XXX-001", "did you mean"),
    ],
)
def test_what_is_no_code_names_the_nearest(cli: Cli, word: str, hint: str) -> None:
    result = cli("explain", "SOW-STO-024", word)
    assert result.status == 2
    assert result.out == ""
    assert result.err.startswith(f"error[SOW-CLI-092]: unknown code {word!r}\n  hint: {hint}")


def test_exit_statuses(cli: Cli) -> None:
    lines = cli("explain", "11").out.splitlines()
    assert lines[0].startswith("exit status 11: ") and "--lock-wait" in lines[0]
    assert any(line.startswith("SOW-JRN-030  ") for line in lines[1:])
    rows = [json.loads(line) for line in cli("explain", "11", "--format", "json").out.splitlines()]
    assert {row["exit"] for row in rows} == {11} and len(rows) == len(lines) - 1
    # a signal ends a command without a code
    assert cli("explain", "130").out == "exit status 130: Interrupted (SIGINT).\n"
    assert cli("explain", "0").out == "exit status 0: Done.\n"
    assert "unknown code '99'" in cli("explain", "99").err


def test_words_list_the_codes_that_contain_them(cli: Cli) -> None:
    done = cli("explain", "disk", "full")
    assert done.status == 0 and "SOW-STO-040" in done.out
    assert cli("explain", "no such words anywhere").status == 2


def test_a_word_that_no_code_has_leads_to_the_pages(cli: Cli) -> None:
    done = cli("explain", "seed")
    assert (done.status, "sowctl man -k seed" in done.err) == (2, True)


def test_a_search_finds_commands_of_three_words(cli: Cli) -> None:
    assert "sowctl-config-add-view(1)" in cli("man", "-k", "add", "view").out
    assert "SOW-CFG-067" in cli("explain", "config", "add").out


def test_a_full_disk_lists_what_can_be_removed_here(cli: Cli) -> None:
    assert "can be removed" not in cli("explain", "disk-full").out
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    assert "Nothing here can be removed." in cli("explain", "disk", "full").out
    cli("publish", "t", stdin=b'{"id":1}\n')
    for words in (("disk-full",), ("SOW-JRN-021",)):
        told = cli("explain", *words).out.splitlines()
        assert told[-1].strip() == "sowctl journal rotate" and told[-2].startswith("1. ")
    assert "removed here" not in cli("explain", "SOW-QRY-001").out
    checks = json.loads(cli("doctor", "--json").out)["checks"]
    assert [one["hint"] for one in checks if one["name"].startswith("space")] == ["sowctl journal rotate"]

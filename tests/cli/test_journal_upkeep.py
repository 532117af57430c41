"""The maintenance commands for journals, from the command line: statuses, formats, questions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.instances import Lab, config_xml, message, topic_xml


@pytest.fixture
def rolled(tmp_path: Path) -> Lab:
    """Forty entries in several files; the working directory of ``cli`` is the instance's."""
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)), journal_size=1500)
    for number in range(20):
        lab.publish("t", message(id=number, text="x" * 40), message(id=number + 100, text="y" * 40), client="feed")
    return lab


def damage(lab: Lab) -> Path:
    """One wrong bit in the middle of the second file."""
    path = lab.journals()[1]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    return path


def test_check_says_what_it_read(rolled: Lab, cli: Cli) -> None:
    done = cli("journal", "check")
    assert (done.status, done.out) == (0, "")
    assert "no damage found" in done.err and "40 entries in 20 groups" in done.err
    assert "not verified" not in done.err
    row = json.loads(cli("journal", "check", "--summary", "json").out)
    assert (row["entries"], row["errors"], row["not_verified"]) == (40, 0, [])
    path = damage(rolled)
    done = cli("journal", "check", "--format", "json", "--summary", "json")
    *findings, summary = map(json.loads, done.out.splitlines())
    assert done.status == 5
    assert findings[0]["rule"] == "SOW-JRN-010"
    assert summary["errors"] == len(findings) and path.name in summary["not_verified"][0]
    assert cli("journal", "check", "nowhere").status == 10


def test_findings_as_json_are_followed_by_what_was_read(rolled: Lab, cli: Cli) -> None:
    """On standard error, so that each line of standard output is a finding."""
    for command in (("journal", "check"), ("check",), ("store", "check")):
        done = cli(*command, "--format", "json")
        assert (done.status, done.out) == (0, "")
        row = json.loads(done.err)
        assert (row["errors"], "not_verified" in row) == (0, True)
        assert cli(*command, "--format", "json", "--quiet").err == ""
    damage(rolled)
    done = cli("journal", "check", "--format", "json")
    findings = list(map(json.loads, done.out.splitlines()))
    assert (done.status, json.loads(done.err)["errors"]) == (5, len(findings))
    assert "not verified" in cli("journal", "check", "--format", "json", "--summary", "text").err


def test_it_is_said_where_no_file_is_finished(tmp_path: Path, cli: Cli) -> None:
    archive = "<JournalArchiveDirectory>./archive</JournalArchiveDirectory></TransactionLog>"
    xml = config_xml(topic_xml("t"), ("t",)).replace("</TransactionLog>", archive)
    Lab(tmp_path, xml).publish("t", '{"id":1}')
    for command, word in (("compress", "compressed"), ("archive", "moved")):
        done = cli("journal", command)
        assert (done.status, done.out) == (0, "")
        assert done.err.startswith(f"no file was {word}: ")


def test_a_journal_of_which_no_file_is_left(rolled: Lab, cli: Cli) -> None:
    """It is damage for commands that read only the journal, and a warning of a check: it may have been abandoned."""
    for path in rolled.journals():
        path.unlink()
    for command in (("list",), ("dump",), ("check",), ("tail",), ("search", "--key", "3"), ("dump", "journal")):
        done = cli("journal", *command)
        assert done.status == 5 and "SOW-JRN-013" in done.err and " 40\n" in done.err, command
    assert cli("query", "t", "--at", "5").status == 5
    done = cli("check", "--format", "json")
    (row,) = map(json.loads, done.out.splitlines())
    assert (done.status, row["rule"], row["severity"]) == (0, "SOW-JRN-013", "warning")
    (rolled.directory / "journal" / "test.topics").unlink()
    assert cli("journal", "list").status == 5
    assert cli("journal", "list", "journal").status == 10


def test_search_prints_entries_or_their_number(rolled: Lab, cli: Cli) -> None:
    done = cli("journal", "search", "--key", "103", "--client", "feed")
    assert done.status == 0
    (row,) = map(json.loads, done.out.splitlines())
    assert (row["operation"], row["client"], row["data"]["id"]) == ("publish", "feed", 103)
    assert "1 match in 40 entries" in done.err
    assert cli("journal", "search", "--filter", "/id > 100", "--count").out == "19\n"
    done = cli("journal", "search", "--regex", "y{40}", "--txid", "3:6", "--no-data", "--summary", "json")
    *rows, report = map(json.loads, done.out.splitlines())
    assert [row["txid"] for row in rows] == [4, 6]
    assert "data" not in rows[0] and report["matched"] == 2
    assert cli("journal", "search", "--regex", "(").status == 2
    assert cli("journal", "search", "--topic", "nope").status == 10


def test_tail_prints_the_last_entries(rolled: Lab, cli: Cli) -> None:
    done = cli("journal", "tail", "-n", "3", "t")
    assert (done.status, [json.loads(line)["txid"] for line in done.out.splitlines()]) == (0, [38, 39, 40])
    assert len(cli("journal", "tail").out.splitlines()) == 10
    assert cli("journal", "tail", "-f", "--format", "table").status == 2
    assert cli("journal", "tail", "nope").status == 10


def test_compress_lists_what_it_did(rolled: Lab, cli: Cli) -> None:
    files = rolled.journals()
    rows = [json.loads(line) for line in cli("journal", "compress", "--dry-run").out.splitlines()]
    assert len(rows) == len(files) - 1 and rolled.journals() == files
    done = cli("journal", "compress", "--to", "gz", "--keep", "1")
    assert done.status == 0
    assert [json.loads(line)["compressed"] for line in done.out.splitlines()] == [f"{f}.gz" for f in files[:-2]]
    assert cli("journal", "check").status == 0


def test_bisect_prints_the_entry_and_the_counts(rolled: Lab, cli: Cli) -> None:
    done = cli("journal", "bisect", "--filter", "/id >= 100", "--count", ">= 5")
    assert done.status == 0
    row = json.loads(done.out)
    assert (row["txid"], row["client"], row["data"]["id"]) == (10, "feed", 104)
    assert re.search(r": 4 records .*\b5 after\b", done.err)
    entry, found = map(json.loads, cli("journal", "bisect", "--key", "7", "--summary", "json").out.splitlines())
    assert (entry["txid"], found["before"]["count"], found["after"]["count"]) == (15, 0, 1)
    assert cli("journal", "bisect", "--filter", "/id > 9000").status == 1


def test_repair_asks_and_says_what_it_did(rolled: Lab, cli: Cli) -> None:
    path = damage(rolled)
    done = cli("journal", "repair", "--dry-run")
    (row,) = map(json.loads, done.out.splitlines())
    assert (done.status, row["what"], row["path"], row["receipt"]) == (0, "gap", str(path), None)
    assert cli("journal", "repair").status == 8
    done = cli("journal", "repair", "--yes")
    (row,) = map(json.loads, done.out.splitlines())
    assert done.status == 0 and Path(row["receipt"]).exists()
    done = cli("journal", "repair", "--yes")
    assert (done.status, done.out) == (0, "") and "no damage found" in done.err
    done = cli("journal", "check", "--summary", "json", "--format", "json")
    finding, summary = map(json.loads, done.out.splitlines())
    assert (done.status, finding["rule"], summary["gaps"], summary["warnings"]) == (0, "SOW-JRN-071", 1, 1)
    done = cli("journal", "dump", "--no-data")
    assert done.status == 0 and f"txids {row['first_txid']} to {row['last_txid']} " in done.err
    assert len(done.out.splitlines()) == 40 - (row["last_txid"] - row["first_txid"] + 1)


def test_repair_says_what_it_could_not_mend(rolled: Lab, cli: Cli) -> None:
    path = rolled.journals()[1]
    path.write_bytes(b"nothing of a journal" * 10)
    done = cli("journal", "repair", "--yes")
    assert (done.status, done.out) == (5, "") and "SOW-JRN-002" in done.err


def test_a_txid_that_was_pruned_or_cut_out_is_told_so(rolled: Lab, cli: Cli) -> None:
    damage(rolled)
    (gap,) = json.loads(cli("journal", "repair", "--yes", "--format", "json").out)
    hidden = cli("query", "t", "--at", str(gap["first_txid"]))
    assert (hidden.status, "SOW-ENG-070" in hidden.err) == (10, True)
    assert f"txids {gap['first_txid']} to {gap['last_txid']};" in hidden.err.partition("hint: ")[2]
    never = cli("query", "t", "--at", "1767614400")
    assert (never.status, "1767614400s" in never.err) == (10, True)
    # The oldest file is removed, as by a prune or by an operator.
    rolled.journals()[0].unlink()
    pruned = cli("query", "t", "--at", "1")
    assert (pruned.status, "SOW-ENG-070" in pruned.err and "txid" in pruned.err) == (10, True)


def test_a_rebuild_without_the_oldest_files_is_reported_as_incomplete(rolled: Lab, cli: Cli) -> None:
    rolled.forget("t")
    whole = cli("replay", "t", "--summary", "json")
    assert (whole.status, json.loads(whole.out)["incomplete"], "warning" in whole.err) == (0, False, False)
    rolled.journals()[0].unlink()
    for words in ((), ("--dry-run",), ("--into", "aside")):
        rolled.forget("t")
        done = cli("--quiet", "replay", "t", "--summary", "json", *words)
        assert (done.status, json.loads(done.out)["incomplete"]) == (0, True)
        assert "warning" in done.err and "incomplete" in done.err


def test_the_active_file_is_named_and_finished_by_rotate(cli: Cli, tmp_path: Path) -> None:
    archive = "<JournalArchiveDirectory>archive</JournalArchiveDirectory><JournalSize>"
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)).replace("<JournalSize>", archive))
    lab.publish("t", message(id=1))
    for words in (("compress",), ("archive",), ("prune", "--keep-size", "1", "--yes")):
        done = cli("journal", *words)
        assert (done.status, "sowctl journal rotate" in done.err) == (0, True), words
    assert cli("journal", "rotate", "--dry-run").err.startswith("would finish ")
    row = json.loads(cli("journal", "rotate", "--json").out)
    assert (row["rotated"], row["first_txid"], row["last_txid"]) == (True, 1, 1)
    assert [path.name for path in lab.journals()] == [Path(row["path"]).name, Path(row["next_path"]).name]
    assert json.loads(cli("journal", "rotate", "--json").out) == {"rotated": False}
    assert cli("journal", "archive").status == 0
    assert [path.name for path in lab.journals()] == [Path(row["next_path"]).name]

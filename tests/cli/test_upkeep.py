"""journal archive, journal prune, upkeep run and list as commands: output, questions, and exit statuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.engine.maintenance.retention.test_actions import ARCHIVE, DELETE, REMOVE, action, every, fill, lab_of, step
from tests.support.instances import Lab
from tests.support.objectstore import ObjectStore

NOW = "2026-01-05T08:05:00Z"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = lab_of(tmp_path, ARCHIVE, REMOVE, DELETE, action(every("1h", "left"), step("Do", "do-minidump")))
    fill(lab, 8)
    return lab


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_archive(cli: Cli, lab: Lab) -> None:
    where = ("--config", str(lab.config), "--now", NOW)
    dry = cli("journal", "archive", "--dry-run", *where)
    files = len(lab.journals())
    assert dry.status == 0 and len(rows(dry.out)) == files - 1
    kept = cli("journal", "archive", "--keep", "1", *where)
    found = rows(kept.out)
    assert len(found) == files - 2 and found[0]["dry_run"] is False
    assert Path(str(found[0]["archived"])).is_file() and not Path(str(found[0]["path"])).exists()
    listed = rows(cli("journal", "list", *where).out)
    assert [row["number"] for row in listed] == list(range(files))
    assert cli("journal", "archive", "--older-than", "1h", *where).out == ""
    assert cli("journal", "archive", "--older-than", "soon", *where).status == 2
    assert cli("journal", "archive", "--keep", "-1", *where).status == 2
    table = cli("journal", "archive", "--format", "table", *where)
    assert table.status == 0 and "first_txid" in table.out


def test_archive_to_a_url(cli: Cli, lab: Lab, lake: ObjectStore) -> None:
    where = ("--to", lake.url("journal"), "--config", str(lab.config), "--now", NOW)
    files = len(lab.journals())
    dry = cli("journal", "archive", "--dry-run", *where)
    assert dry.status == 0 and len(rows(dry.out)) == files - 1 and not lake.objects
    first = rows(cli("journal", "archive", "--keep", "2", *where).out)
    assert len(first) == files - 3 and len(lab.journals()) == files
    assert str(first[0]["archived"]).startswith("s3://lake/journal/") and first[0]["dry_run"] is False
    assert len(rows(cli("journal", "archive", *where).out)) == 2
    assert len(lake.names("journal/")) == files
    again = cli("journal", "archive", "--verify", *where)
    assert (again.status, again.out) == (0, "")
    assert f"{files - 1} segments were" in again.err
    names = [name for name in lake.names("journal/") if name.endswith(".journal")]
    lake.objects["lake/journal/" + names[-1]] += b"x"
    for dry in (True, False):
        # existing segments are verified regardless of --keep, which applies to files to be sent
        differs = cli("journal", "archive", "--verify", "--keep", "3", *(["--dry-run"] if dry else []), *where)
        assert [row["dry_run"] for row in rows(differs.out)] == [dry] and f"{files - 2} segments were" in differs.err
    # a file that was removed here cannot be sent again
    lab.journals()[0].unlink()
    lake.objects["lake/journal/" + names[0]] += b"x"
    lost = cli("journal", "archive", "--verify", *where)
    assert lost.status == 5 and "SOW-JRN-084" in lost.err and names[0] in lost.err
    assert cli("journal", "archive", "--older-than", "1d", *where).out == ""
    alone = cli("journal", "archive", "--verify", "--config", str(lab.config), "--now", NOW)
    assert alone.status == 2 and "SOW-CLI-037" in alone.err
    lake.refused.add("lake/journal/" + lake.names("journal/")[-1])
    refused = cli("journal", "archive", *where)
    assert refused.status == 6 and "SOW-RMT-004" in refused.err and len(refused.err.strip().splitlines()) <= 3


def test_the_journal_s_own_directories_are_no_archive(cli: Cli, lab: Lab) -> None:
    for name in ("journal", "old"):
        refused = cli("journal", "archive", "--to", f"file://{lab.directory}/{name}", "--config", str(lab.config))
        assert refused.status == 8 and "SOW-JRN-085" in refused.err, name


def test_prune_asks_and_says_who_keeps_what(cli: Cli, lab: Lab) -> None:
    where = ("--config", str(lab.config), "--now", NOW)
    files = len(lab.journals())
    refused = cli("journal", "prune", "--keep-size", "0", *where)
    assert refused.status == 8 and "SOW-CLI-007" in refused.err
    no = cli("journal", "prune", "--keep-size", "0", *where, stdin=b"no\n", tty="in err")
    assert no.status == 8 and f"remove {files - 1} journal files" in no.err and len(lab.journals()) == files
    dry = cli("journal", "prune", "--keep-size", "0", "--dry-run", *where)
    assert dry.status == 0 and "would be removed" in dry.err and len(lab.journals()) == files
    assert re.search(r"\btopic t .* 2026-01-05T08:0", dry.err)
    (lab.directory / "shop.bookmarks").unlink(missing_ok=True)
    # A subscription without any message so far keeps everything.
    told = cli("bookmark", "set", "shop.bookmarks", "0", "--client", "billing", "--sub-id", "1", *where)
    assert told.status == 0, told.err
    held = cli("journal", "prune", "--keep-size", "0", "--yes", *where)
    assert held.status == 0 and re.search(r"\bbilling/1 .* 0000000000 ", held.err)
    assert "sowctl bookmark purge" in held.err and len(lab.journals()) == files
    assert [row["removed"] for row in rows(held.out)] == [False] * (files - 1)
    Path("shop.bookmarks").unlink()
    report = cli("journal", "prune", "--keep-size", "0", "--yes", "--summary", "json", *where)
    found = json.loads(report.out)
    assert (
        found["removed"] == files - 1 == len(found["files"])
        and found["held"] == []
        and found["past"][0]["topic"] == "t"
    )
    assert len(lab.journals()) == 1
    early = cli("journal", "dump", "--from", "1", *where)
    assert early.status == 0 and json.loads(early.out.splitlines()[0])["txid"] == found["first_txid"]


def test_prune_takes_exactly_one_rule(cli: Cli, lab: Lab) -> None:
    where = ("--config", str(lab.config), "--now", NOW, "--dry-run")
    for options in ((), ("--keep-for", "1d", "--before", "7"), ("--keep-size", "1MB", "--keep-for", "1d")):
        assert "SOW-UPK-002" in cli("journal", "prune", *options, *where).err
    kept = cli("journal", "prune", "--keep-for", "1d", *where)
    assert (kept.status, kept.out, "no file " in kept.err) == (0, "", True)
    assert rows(cli("journal", "prune", "--before", "40", *where).out)[0]["removable"] is True
    assert rows(cli("journal", "prune", "--before", NOW, *where).out)[-1]["removable"] is True
    assert cli("journal", "prune", "--before", "12|99|", *where).status == 10
    assert cli("journal", "prune", "--keep-size", "much", *where).status == 2


def test_upkeep_run_and_list(cli: Cli, lab: Lab) -> None:
    where = ("--config", str(lab.config), "--now", NOW)
    before = rows(cli("upkeep", "list", *where).out)
    assert [row["name"] for row in before] == ["to the archive", "nightly", "weekly", "left"]
    assert [row["due"] for row in before] == [True, True, True, False]
    assert before[3]["steps"] == "[do-minidump]" and before[3]["next"] is None
    dry = cli("upkeep", "run", "--dry-run", *where)
    assert [row["outcome"] for row in rows(dry.out)] == ["would be done"] * 3
    done = cli("upkeep", "run", *where)
    assert done.status == 0 and [row["outcome"] for row in rows(done.out)] == ["done"] * 3
    again = cli("upkeep", "run", *where)
    assert (again.status, again.out, again.err.count("\n")) == (0, "", 1)
    after = rows(cli("upkeep", "list", *where).out)
    assert after[0]["last"] == "2026-01-05T08:05:00.000000Z" and after[0]["next"] == "2026-01-05T09:05:00.000000Z"
    assert after[2]["next"] == "2026-01-11T04:00:00.000000Z"


def test_what_fails_gives_the_status_and_the_rest_runs(cli: Cli, lab: Lab) -> None:
    where = ("--config", str(lab.config), "--now", NOW)
    (lab.directory / "old").write_text("no directory")
    failed = cli("upkeep", "run", *where)
    assert failed.status == 6 and "SOW-JRN-061" in failed.err
    assert [row["outcome"] for row in rows(failed.out)] == ["failed", "done", "done"]
    listed = rows(cli("upkeep", "list", *where).out)
    assert listed[0]["due"] is True and "cannot move" in str(listed[0]["problem"])
    (lab.directory / "old").unlink()
    assert cli("upkeep", "run", *where).status == 0


def test_an_instance_that_was_restored_is_pruned_as_any_other(cli: Cli, lab: Lab, tmp_path: Path) -> None:
    """Its journal continues in a new history, whose txids begin far above those of the old one."""
    records, there = lab.query("t"), tmp_path / "there"
    assert cli("backup", "backups", "--config", str(lab.config), "--now", NOW).status == 0
    assert cli("restore", "backups", "--to", str(there), "--now", NOW).status == 0
    where = ("--config", str(there / "sowctl.xml"), "--now", NOW)
    listed = rows(cli("journal", "list", *where).out)
    assert listed[-2]["last_txid"] == 96 and int(str(listed[-1]["first_txid"])) > 10**6
    told = cli("bookmark", "set", "shop.bookmarks", "96", "--client", "c", "--sub-id", "1", *where)
    assert told.status == 0, told.err
    done = cli("journal", "prune", "--keep-size", "0", "--yes", *where)
    assert [row["removed"] for row in rows(done.out)] == [True] * (len(listed) - 1), done.err
    assert sorted(cli("query", "t", *where).out.splitlines()) == sorted(records)
    assert cli("check", *where).status == 0


def test_a_rule_that_cannot_be_read_is_said_before_the_question(cli: Cli, lab: Lab) -> None:
    done = cli("journal", "prune", "--keep-for", "banana", "--config", str(lab.config))
    assert done.status == 2 and "banana" in done.err and "--yes" not in done.err


def test_a_word_in_the_place_of_a_directory_of_the_journal(cli: Cli, lab: Lab) -> None:
    done = cli("journal", "search", "banana", "--config", str(lab.config))
    assert done.status == 10 and "--regex PATTERN" in done.err

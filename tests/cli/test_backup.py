"""``sowctl backup`` and ``sowctl restore`` from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

NOW = ("--now", "2026-01-05T10:00:00Z")
LATER = ("--now", "2026-01-05T10:00:05Z")


@pytest.fixture
def shop(cli: Cli) -> Cli:
    Path("live").mkdir()
    Path("live/sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("alone"), ("t",)))
    lines = "".join(f'{{"id":{number}}}\n' for number in range(5)).encode()
    for topic in ("t", "alone"):
        assert cli("publish", topic, "-c", "live/sowctl.xml", *NOW, stdin=lines).status == 0
    return cli


def taken(cli: Cli, *options: str) -> dict[str, Any]:
    result = cli("backup", "backups", "-c", "live/sowctl.xml", "--summary", "json", *options)
    assert result.status == 0, result.err
    found: dict[str, Any] = json.loads(result.out)
    return found


def test_from_a_backup_to_a_restored_instance(shop: Cli) -> None:
    first = taken(shop, *NOW)
    assert (first["kind"], first["records"], first["last_txid"]) == ("full", 10, 5)
    assert shop("publish", "t", "-c", "live/sowctl.xml", *LATER, stdin=b'{"id":9}\n').status == 0
    second = taken(shop, *LATER)
    assert (second["kind"], second["base"]) == ("incremental", first["name"])
    listed = [json.loads(line) for line in shop("backup", "backups", "--list").out.splitlines()]
    assert [(row["name"], row["last_txid"]) for row in listed] == [(first["name"], 5), (second["name"], 6)]
    for name in (first["name"], second["name"]):
        result = shop("backup", "backups", "--verify", "--name", name)
        assert result.status == 0, result.err
        assert "verified" in result.err
    result = shop("restore", "backups", "--to", "then", "--txid", "5", *LATER)
    assert result.status == 0, result.err
    assert "restored: 10 records" in result.err
    report = json.loads(shop("restore", "backups", "--to", "now", "--summary", "json", *LATER).out)
    assert (report["last_txid"], report["next_txid"]) == (6, 10**12 + 1)
    assert [row["digest"] is not None for row in report["restored"]] == [True, True]
    for place, count in (("then", 5), ("now", 6), ("live", 6)):
        assert len(shop("query", "t", "-c", f"{place}/sowctl.xml").out.splitlines()) == count
    digests = {shop("hash", "t", "-c", f"{place}/sowctl.xml").out for place in ("now", "live")}
    assert len(digests) == 1
    assert shop("check", "-c", "now/sowctl.xml").status == 0


def test_what_is_said_where_it_cannot_be(shop: Cli) -> None:
    assert "SOW-BAK-005" in shop("backup", "backups", "--list").err
    assert shop("restore", "backups", "--to", "x").status == 10
    taken(shop)
    assert shop("restore", "backups", "--to", "live").status == 8
    assert shop("restore", "backups", "--to", "x", "--txid", "77").status == 10
    assert shop("restore", "backups", "--to", "x", "--txid", "7", "--at", "2026-01-05").status == 2
    assert shop("backup", "backups", "--list", "--verify").status == 2
    assert shop("backup", "backups", "--verify", "--name", "nothing").status == 10
    (tree,) = Path("backups").glob("2*/tree")
    (tree / "sow/t.json.sow").unlink()
    assert shop("backup", "backups", "--verify").status == 5
    assert shop("restore", "backups", "--to", "x").status == 5
    assert not Path("x").exists()


def test_a_dry_run_writes_nothing(shop: Cli) -> None:
    taken(shop)
    result = shop("restore", "backups", "--to", "x", "--dry-run", "--summary", "json")
    assert json.loads(result.out)["dry_run"] is True
    assert not Path("x").exists()


def test_the_backup_of_the_demo_at_an_instant_within_its_groups(cli: Cli) -> None:
    """All orders of the demo are one group that continues beyond the instant, and the quotes follow it."""
    config = ("-c", "demo/sowctl.xml")
    assert cli("demo", "--quiet").status == 0
    assert cli("backup", "bak", *config).status == 0
    at = ("--at", "2026-01-05T12:00:00Z")
    wanted = {
        topic: int(cli("journal", "search", "--topic", topic, "--until", at[1], "--count", *config).out)
        for topic in ("orders", "quotes")
    }
    for more in ((), ("--dry-run",)):
        result = cli("restore", "bak", "--to", "x", *at, *more, "--error-format", "json")
        assert result.status == 8 and not Path("x").exists()
        (error,) = (row for row in map(json.loads, result.err.splitlines()) if row.get("code"))
        assert error["code"] == "SOW-BAK-008"
        assert {row["topic"]: row["entries"] for row in error["entries_left_out"]} == wanted
        assert "--txid 2401" in error["hint"] and "--txid 4401" in error["hint"]
    result = cli("restore", "bak", "--to", "x", *at, "--force", "--summary", "json", "--quiet")
    assert result.status == 3
    assert "SOW-BAK-009" in result.err and "--txid 2401" in result.err
    report = json.loads(result.out)
    assert {row["topic"]: row["entries"] for row in report["entries_left_out"]} == wanted
    assert [row["txid"] for row in report["choices"]] == [2401, 4401]
    assert cli("query", "orders", "--count", "-c", "x/sowctl.xml").out.strip() == "0"
    result = cli("restore", "bak", "--to", "y", "--txid", "2401")
    assert result.status == 0
    assert cli("query", "orders", "--count", "-c", "y/sowctl.xml").out.strip() == "900"


def test_a_bookmark_of_what_was_undone_is_refused_with_both_histories(shop: Cli) -> None:
    taken(shop)
    assert shop("publish", "t", "-c", "live/sowctl.xml", stdin=b'{"id":9}\n').status == 0
    assert shop("restore", "backups", "--to", "x").status == 0
    result = shop("subscribe", "t", "-c", "x/sowctl.xml", "--bookmark", "6", "--no-sow", "--error-format", "json")
    assert result.status == 10
    error = next(row for row in map(json.loads, result.err.splitlines()) if row.get("code"))
    assert error["code"] == "SOW-ENG-072"
    assert error["history"] != error["ended_history"]
    assert error["ended_history"][:8] in error["message"]
    assert error["history"][:8] in error["message"]


def test_files_outside_of_the_instance_are_kept_apart(shop: Cli, tmp_path: Path) -> None:
    text = Path("live/sowctl.xml").read_text().replace(">sow/%n.sow<", f">{tmp_path}/far/%n.sow<")
    shutil.rmtree("live")
    Path("live").mkdir()
    Path("live/sowctl.xml").write_text(text)
    assert shop("publish", "t", "-c", "live/sowctl.xml", stdin=b'{"id":9}\n').status == 0
    taken(shop)
    result = shop("restore", "backups", "--to", "x", "--summary", "json")
    report = json.loads(result.out)
    assert report["outside"] == [f"outside{tmp_path}/far/t.sow"] or len(report["outside"]) == 1
    assert "; 1 file " in report["note"] and "'outside'" in report["note"]
    assert (Path("x") / report["outside"][0]).is_file()

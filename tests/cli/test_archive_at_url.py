"""A JournalArchiveDirectory at a URL, and ``--archive``, from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.faraway import Faraway, far_away
from tests.support.instances import Lab, config_xml, message, topic_xml


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Faraway]:
    with far_away(tmp_path / "far") as place:
        yield place


@pytest.fixture
def rolled(tmp_path: Path) -> Lab:
    """Forty entries in several files; the working directory of ``cli`` is the instance's."""
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)), journal_size=1500)
    for number in range(20):
        lab.publish("t", message(id=number, text="x" * 40), message(id=number + 100, text="y" * 40))
    return lab


def with_archive(lab: Lab, url: str) -> None:
    directory = "<JournalDirectory>journal</JournalDirectory>"
    archive = f"<JournalArchiveDirectory>{url}</JournalArchiveDirectory>"
    lab.config.write_text(lab.xml.replace(directory, directory + archive))


def test_the_configured_url(rolled: Lab, cli: Cli, far: Faraway) -> None:
    whole = cli("journal", "dump", "--format", "ndjson").out
    numbers = [json.loads(line)["number"] for line in cli("journal", "list", "--format", "ndjson").out.splitlines()]
    then = cli("query", "t", "--at", "10").out
    with_archive(rolled, far.url("lake"))
    assert cli("lint").status == 0
    done = cli("journal", "archive", "--format", "ndjson")
    assert done.status == 0 and len(done.out.splitlines()) == len(numbers) - 1
    assert cli("journal", "archive", "--verify").status == 0
    assert cli("journal", "prune", "--keep-size", "2KB", "--yes").status == 0
    left = [path.name for path in rolled.journals()]
    assert len(left) < len(numbers)
    assert cli("journal", "dump", "--format", "ndjson").out == whole
    rows = [json.loads(line) for line in cli("journal", "list", "--format", "ndjson").out.splitlines()]
    assert [row["number"] for row in rows] == numbers
    assert rows[0]["path"].startswith("hdfs://far/lake/") and rows[-1]["path"].endswith(left[-1])
    assert cli("query", "t", "--at", "10").out == then
    assert cli("journal", "search", "--key", "3", "--count").status == 0
    assert cli("journal", "check").status == 0
    rolled.forget("t")
    assert cli("replay", "t").status == 0 and cli("replay", "--verify").status == 0
    assert len(cli("query", "t").out.splitlines()) == 40
    # as a directory: the archive by itself
    there = cli("journal", "dump", far.url("lake"), "--format", "ndjson").out
    assert whole.startswith(there) and 0 < len(there) < len(whole)


def test_an_archive_for_one_run(rolled: Lab, cli: Cli, far: Faraway, tmp_path: Path) -> None:
    assert cli("journal", "archive", "--to", far.url("lake")).status == 0
    kept = rolled.journals()
    for path in kept[:-1]:
        path.unlink()
    assert cli("replay", "--into", "new", "--archive", far.url("lake"), "--summary", "json").status == 0
    report = json.loads(cli("replay", "--into", "again", "--archive", far.url("lake"), "--summary", "json").out)
    assert report["records"] == 40 and report["note"] is None
    without = json.loads(cli("replay", "--into", "less", "--summary", "json").out)
    assert without["records"] < 40 and "earlier records" in without["note"]
    done = cli("replay", "--into", "x", "--archive", far.url("nowhere"))
    assert done.status == 10 and "SOW-JRN-081" in done.err and "Traceback" not in done.err
    done = cli("replay", "--into", "x", "--archive", far.url("lake"), "--journal", "journal")
    assert done.status == 2 and "SOW-CLI-038" in done.err
    done = cli("journal", "archive", "--verify")
    assert done.status == 2 and "SOW-CLI-037" in done.err


def test_what_must_be_here(rolled: Lab, cli: Cli) -> None:
    rolled.config.write_text(rolled.xml.replace(">journal<", ">s3://lake/journal<"))
    done = cli("journal", "list")
    assert done.status == 4 and "SOW-CFG-240" in done.err and "JournalArchiveDirectory" in done.err
    done = cli("lint")
    assert "F040" in done.out and "written-at-url" in cli("lint", "--explain", "F040").out

"""Reports state what was done, and their machine-readable forms are valid."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import msgspec
import pytest

from sowctl.journal.maintenance.file_compression import compress_file
from sowctl.seam import SEAM
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml


@pytest.fixture
def shop(cli: Cli) -> Cli:
    """A topic t whose journal has files of 10 MB."""
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    return cli


def _fill(cli: Cli) -> None:
    noise = random.Random(1)
    rows = [json.dumps({"id": n % 50, "pad": noise.randbytes(20_000).hex()}) for n in range(600)]
    assert cli("publish", "t", stdin="\n".join(rows).encode()).status == 0


def test_journals_pruned_compressed_and_replayed(shop: Cli) -> None:
    _fill(shop)
    rows = [
        json.loads(line) for line in shop("journal", "prune", "--keep-for", "0s", "--dry-run", "-q").out.splitlines()
    ]
    assert rows
    assert {(row["removed"], row["removable"], row["dry_run"]) for row in rows} == {(False, True, True)}
    assert all(Path(row["path"]).exists() for row in rows)
    shop("journal", "prune", "--keep-for", "0s", "--yes", "-q")
    for file in Path("sow").iterdir():
        file.unlink()
    said = shop("replay", "t")
    assert "600 applied" not in said.err
    assert "txid 600" in said.err
    entries = int(said.err.partition("rebuilt: ")[2].partition(" entries")[0].replace(",", ""))
    assert entries < 600


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_file_that_would_grow_stays(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / "i.0000000000.journal"
    for data, shrinks in ((random.Random(1).randbytes(100_000), False), (bytes(100_000), True)):
        file.write_bytes(data)
        packed = compress_file(file, suffix, SEAM)
        assert (packed is not None, file.exists()) == (shrinks, not shrinks)
        assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", [b"a\nb.csv", b"a\x1b[31m.ndjson", b"a\xbf.ndjson", "a\u202e.ndjson".encode()])
def test_names_of_files_are_shown_in_one_line_of_valid_text(name: bytes, shop: Cli) -> None:
    shop("publish", "t", stdin=b'{"id":1}')
    file = os.fsdecode(name)
    said = shop("export", "t", file)
    assert said.status == 0 and len(said.err.splitlines()) == 1
    assert said.err.rstrip("\n").isprintable()
    Path(file).write_bytes(b"{oops}\n")
    said = shop("publish", "t", file, "--error-format", "json", "--on-error", "stop", "--rejects", "rejects")
    for line in (*said.err.splitlines(), *Path("rejects").read_text().splitlines()):
        msgspec.json.decode(line)
    said = shop("publish", "t", file, "--error-format", "json", "--on-error", "skip")
    for line in said.err.splitlines():
        msgspec.json.decode(line)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("/s = “x”", "'"),
        ("/s = ‘x’", "'"),
        ("/s = «x»", "'"),
        ("/id – 1 > 0", "-"),
        ("/id ＝ 1", "'='"),
        ("/id ； 1", "';'"),
    ],
)
def test_signs_of_text_processors_get_a_hint(text: str, hint: str, shop: Cli) -> None:
    shop("publish", "t", stdin=b'{"id":1}')
    said = shop("query", "t", text)
    assert said.status == 2 and "hint: write " in said.err
    assert said.err.rstrip("\n").endswith(hint) or hint in said.err.partition("hint: ")[2]


def test_a_match_limit_names_the_record_once(shop: Cli) -> None:
    shop("publish", "t", stdin=b'{"id":1,"s":"x"}\n{"id":2,"s":"' + b"a" * 60 + b'b"}\n')
    said = shop("query", "t", "/s LIKE '^(a|aa)+$'")
    key = json.loads(shop("query", "t", "/id = 2", "--meta").out)["sow_key"]
    assert f"record {key}: " in said.err and "on record" not in said.err


@pytest.mark.parametrize(
    "argv",
    [
        ("journal", "dump"),
        ("journal", "tail"),
        ("journal", "search"),
        ("snapshot", "t", "--at", "NOW"),
        ("queue", "peek", "q"),
        ("queue", "lease", "q"),
        ("key", "t"),
    ],
)
def test_no_headers_where_csv_is_printed(argv: tuple[str, ...], cli: Cli) -> None:
    queue = "<Queue><Name>q</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic></Queue>"
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + queue, ("t",)))
    cli("publish", "t", stdin=b'{"id":1}')
    stdin = b'{"id":1}' if argv[0] == "key" else b""
    columns = ("--columns", "topic") if argv[0] != "key" else ("--columns", "/sow_key")
    first, second = (cli(*argv, "--format", "csv", *columns, *more, stdin=stdin) for more in ((), ("--no-headers",)))
    if argv[1] == "lease":
        assert (first.status, second.status) == (0, 1) or second.status == 0
        return
    assert first.out.splitlines()[1:] == second.out.splitlines() != []

"""Errors and reports of common tasks contain the likely intention, the location, and a command that works."""

from __future__ import annotations

import errno
import gzip
import json
import shlex
from pathlib import Path

import pytest

from sowctl.engine.maintenance.backup import folder
from sowctl.journal.appender import write_error
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml


@pytest.fixture
def shop(cli: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("my topic"), ("t", "my topic")))
    done = cli("--now", "2026-01-05", "publish", "t", stdin=b'{"id":1,"A":1,"a":2}\n')
    assert done.status == 0
    return cli


def test_a_restore_before_the_first_entry_says_that_nothing_is_there(shop: Cli) -> None:
    assert shop("backup", "bak").status == 0
    early = shop("restore", "bak", "--to", "early", "--at", "2001-01-01")
    assert (early.status, "no records" in early.err) == (0, True)
    late = shop("restore", "bak", "--to", "late")
    assert (late.status, "no records" in late.err) == (0, False)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("history", "t", "--key", "1"), "sowctl history TOPIC KEY"),
        (("bookmark", "list", "--store", "a.bookmarks"), "sowctl bookmark list STORE"),
        (("delete", "t", "--keys", "keys.txt"), "--data FILE"),
        (("query", "*"), "'.*'"),
        (("export", "*y", "out/"), "'.*y'"),
        (("journal", "archive", "file:///tmp/archive"), "--to file:///tmp/archive"),
    ],
)
def test_words_of_other_places(shop: Cli, words: tuple[str, ...], hint: str) -> None:
    done = shop(*words)
    assert (done.status, hint in done.err.partition("hint: ")[2]) == (2, True), done.err


def test_a_backup_at_a_file_url_is_in_that_directory(shop: Cli, tmp_path: Path) -> None:
    assert shop("backup", f"file://{tmp_path}/copies").status == 0
    assert list(Path("copies").iterdir()) and not Path("file:").exists()


def test_a_file_is_no_dead_letter_topic(cli: Cli) -> None:
    queue = "<Queue><Name>q</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic></Queue>"
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + queue, ("t",)))
    done = cli("queue", "run", "q", "--until-empty", "--dead-letter", "dead.ndjson", "--", "true")
    assert (done.status, "--dead-letter" in done.err.partition("hint: ")[2]) == (10, True), done.err


def test_quiet_leaves_the_status(shop: Cli) -> None:
    Path("same.ndjson").write_text('{"id":1,"A":1,"a":2}\n')
    Path("other.ndjson").write_text('{"id":1,"A":2,"a":2}\n')
    for form in ((), ("--stat",), ("--summary",), ("--format", "json"), ("--json",), ("-n", "1")):
        for file, status in (("same.ndjson", 0), ("other.ndjson", 1)):
            done = shop("diff", "t", file, "-q", *form)
            assert (done.status, done.out, done.err) == (status, "", "")
    assert shop("diff", "t", "missing.ndjson", "-q").err
    # In any environment, only problems are printed.
    done = shop("doctor", "-q")
    assert bool(done.out) == (done.status == 1)
    assert all(line.startswith(("!!", " ")) for line in done.out.splitlines())


def test_sql_shows_the_line(shop: Cli) -> None:
    pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")
    text = "SELECT id\nFROM t\nWHERE foo bar baz\nORDER BY 1"
    done = shop("sql", text)
    assert done.status == 2
    first, line, marks = done.err.splitlines()[:3]
    assert "SOW-EXC-020" in first and "line 3" in first and "LINE" not in done.err
    assert line.strip() == text.splitlines()[2]
    assert line[marks.index("^") :].startswith("bar")


def test_the_hint_for_members_in_capitals_works(shop: Cli) -> None:
    pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")
    done = shop("sql", "SELECT * FROM t")
    assert (done.status, "SOW-EXC-023" in done.err) == (2, True)
    words = shlex.split(done.err.partition("sowctl sql")[2])
    assert json.loads(shop("sql", words[0]).out) == {"A": 1}


def test_the_hint_for_times_that_go_back_works(shop: Cli) -> None:
    line = b'{"id":2,"t":"2001-01-01T00:00:00Z"}\n'
    done = shop("publish", "t", "--timestamp-field", "/t", stdin=line)
    assert (done.status, "SOW-PUB-006" in done.err) == (3, True)
    assert "--timestamp-field" in done.err.partition("hint: ")[2]
    assert shop("publish", "t", stdin=line).status == 0


def test_doctor_says_which_file(shop: Cli, tmp_path: Path) -> None:
    store = tmp_path / "sow" / "t.json.sow"
    with store.open("r+b") as file:
        file.write(bytes(8192))
    checks = json.loads(shop("doctor", "--json").out)["checks"]
    assert any(one["state"] == "problem" and str(store) in one["detail"] for one in checks)


def test_a_file_system_that_is_read_only(tmp_path: Path) -> None:
    refused = OSError(errno.EROFS, "Read-only file system", str(tmp_path))
    assert "query" in str(write_error(refused, tmp_path, None).hint)
    assert "read-only" in folder._hint_at_error(refused)
    assert "read-only" not in folder._hint_at_error(OSError(errno.EACCES, "no"))


def test_the_hint_for_the_history_of_a_topic_works(shop: Cli) -> None:
    done = shop("query", "my topic@history")
    assert (done.status, "SOW-ENG-012" in done.err, "--at" in done.err) == (10, True, False)
    first, second = (text.strip().splitlines()[0] for text in done.err.partition("hint: ")[2].split(", or "))
    assert shlex.split(first) == ["sowctl", "history", "my topic", "KEY"]
    assert shlex.split(second) == ["sowctl", "sql", 'SELECT * FROM "my topic@history"']


def test_the_hint_for_a_topic_of_the_journal_alone_works(shop: Cli, tmp_path: Path) -> None:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("other"), ("other",)))
    done = shop("query", "t")
    assert (done.status, "SOW-ENG-012" in done.err) == (10, True)
    words = shlex.split(done.err.partition("hint: ")[2].partition(" prints")[0])
    assert words == ["sowctl", "journal", "dump", "t"]
    assert json.loads(shop(*words[1:]).out)["data"] == {"id": 1, "A": 1, "a": 2}
    unknown = shop("query", "t2")
    assert (unknown.status, "--topic" in unknown.err) == (10, False)


def test_explain_takes_words_with_hyphens(cli: Cli) -> None:
    assert cli("explain", "disk-full").out == cli("explain", "disk", "full").out != ""
    assert cli("explain", "SOW-XYZ-999").status == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("n.ndjson", ["publish", "TOPIC", "n.ndjson"]),
        ("n.json", ["publish", "TOPIC", "n.json"]),
        ("n.csv", ["publish", "TOPIC", "n.csv"]),
    ],
)
def test_a_file_in_the_place_of_the_topic(shop: Cli, tmp_path: Path, name: str, words: list[str]) -> None:
    file = tmp_path / name
    file.write_text("id\n7\n" if name.endswith("csv") else '{"id":7}\n')
    done = shop("publish", name)
    assert (done.status, "SOW-ENG-012" in done.err) == (10, True)
    command = shlex.split(done.err.partition("sowctl ")[2].splitlines()[0])
    assert command == words
    assert shop(*("t" if word == "TOPIC" else word for word in command)).status == 0


def test_an_archive_in_the_place_of_the_topic(shop: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK")
    assert "unzip -p x.zip | sowctl publish TOPIC" in shop("publish", "x.zip").err
    assert "unzip" not in shop("publish", "y.zip").err


@pytest.mark.parametrize("command", [["compress"], ["prune", "--keep-for", "1d", "--dry-run"]])
def test_a_journal_of_the_active_file_alone_says_so(shop: Cli, command: list[str]) -> None:
    done = shop("journal", *command)
    assert (done.status, "active file" in done.err) == (0, True)


def test_an_archive_of_the_active_file_alone_says_so(shop: Cli, tmp_path: Path) -> None:
    config = tmp_path / "sowctl.xml"
    archive = f"<JournalArchiveDirectory>{tmp_path / 'old'}</JournalArchiveDirectory></TransactionLog>"
    config.write_text(config.read_text().replace("</TransactionLog>", archive))
    done = shop("journal", "archive")
    assert (done.status, "active file" in done.err) == (0, True)


@pytest.mark.parametrize("tty", ["", "out"])
@pytest.mark.parametrize(
    ("command", "names"),
    [(["info"], "topic,records,free_pages"), (["journal", "list"], "number,size"), (["upkeep", "list"], "action,due")],
)
def test_rows_that_are_no_records_have_columns_without_slashes(
    shop: Cli, tmp_path: Path, command: list[str], names: str, tty: str
) -> None:
    config = tmp_path / "sowctl.xml"
    action = (
        "<Actions><Action><On><Module>amps-action-on-schedule</Module><Options><Every>03:00</Every></Options></On>"
        "<Do><Module>amps-action-do-remove-journal</Module><Options><Age>7d</Age></Options></Do></Action></Actions>"
    )
    config.write_text(config.read_text().replace("</AMPSConfig>", action + "</AMPSConfig>"))
    done = shop(*command, "--columns", names, "--format", "csv" if not tty else "table", tty=tty)
    assert (done.status, done.err) == (0, "")
    assert all(name in done.out for name in names.split(","))
    unknown = shop(*command, "--columns", "no_such", "--format", "csv")
    assert (unknown.status, "/no_such" in unknown.err) == (0, True)


def test_one_file_is_no_files(shop: Cli) -> None:
    assert "1 files" not in shop("journal", "check").err + shop("check").err + shop("doctor").out
    assert "1 entries" not in shop("journal", "check").err + shop("check").err


def test_an_empty_restore_says_why(shop: Cli) -> None:
    lines = b'{"id":3,"t":"2026-01-06T00:00:00Z"}\n{"id":4,"t":"2026-01-06T09:00:00Z"}\n'
    done = shop("--now", "2026-01-07", "publish", "my topic", "--timestamp-field", "/t", stdin=lines)
    assert done.status == 0
    assert shop("backup", "bak").status == 0
    early = shop("restore", "bak", "--to", "early", "--at", "2001-01-01")
    assert "has no records" in early.err and " later " in early.err
    late = shop("restore", "bak", "--to", "late", "--at", "2026-01-06T01:00:00Z", "--force")
    assert "has no records" not in late.err


def test_prune_notes_a_number_without_a_unit(shop: Cli) -> None:
    assert "7 seconds" in shop("journal", "prune", "--keep-for", "7", "--dry-run").err
    for clear in ("7d", "7s", "0"):
        assert "seconds" not in shop("journal", "prune", "--keep-for", clear, "--dry-run").err


@pytest.mark.parametrize("kind", ["bson", "msgpack", "bflat", "nvfix", "fix"])
@pytest.mark.parametrize(("name", "text"), [("x.ndjson", '{"11":7}\n'), ("x.json", '[{"11":7}]\n')])
def test_the_hint_for_json_in_a_topic_of_another_type_works(cli: Cli, kind: str, name: str, text: str) -> None:
    Path(name).write_text(text)
    assert cli("config", "init", "--topic", "t=/11", "--message-type", kind).status == 0
    for words in ((name,), ("-",)):
        done = cli("publish", "t", *words, stdin=text.encode())
        assert done.status not in (0, 2)
        command = shlex.split(done.err.partition("sowctl ")[2].splitlines()[0])
        assert command[:3] == ["publish", "TOPIC", "--format"]
        assert cli("publish", "t", *command[2:], *words, stdin=text.encode()).status == 0


@pytest.mark.parametrize("words", [("--format", "csv"), ("--from", "-")])
def test_compressed_rows_from_a_pipe(shop: Cli, words: tuple[str, ...]) -> None:
    done = shop("publish", "t", *words, stdin=gzip.compress(b"id,v\n1,2\n"))
    assert (done.status, "zcat" in done.err) == (3, True)


@pytest.mark.parametrize("option", [("--envelope", "kafka"), ("--framing", "lines"), ("--null",)])
def test_a_format_and_a_framing(shop: Cli, option: tuple[str, ...]) -> None:
    done = shop("publish", "t", "--format", "csv", *option)
    assert done.status == 2
    assert [one for one in ("--envelope", "--framing", "--null") if one in done.err] == [option[0]]


def test_a_new_topic_without_the_slash_of_its_key(cli: Cli) -> None:
    for words in (("config", "init", "--topic", "o=id"), ("config", "add", "topic", "o=id")):
        done = cli(*words)
        assert done.status == 2 and "o=/id" in done.err
        assert cli("config", "init", "--topic", "o=/id").status in (0, 8)

"""Commands over a whole instance, or many keys: a file or table per topic, stores of one instant, one digest."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import sowctl
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

EARLY, LATE = "2026-01-05T08:00:00Z", "2026-01-05T09:00:00Z"
VIEW = """<View><Name>totals</Name><UnderlyingTopic>orders</UnderlyingTopic><MessageType>json</MessageType>
<FileName>sow/%n.sow</FileName><Projection><Field>/id AS /id</Field></Projection>
<Grouping><Field>/id</Field></Grouping></View>"""
CONFIG = config_xml(topic_xml("orders") + topic_xml("a/b") + topic_xml("empty") + VIEW, ("orders", "a/b", "empty"))


@pytest.fixture
def run(cli: Cli) -> Callable[..., str]:
    """Runs a command line that must end with the given status, and returns its output."""
    Path("sowctl.xml").write_text(CONFIG)

    def call(*argv: str, status: int = 0, now: str = LATE, **options: object) -> str:
        done = cli(*argv, "--now", now, **options)
        assert done.status == status, done
        call.err = done.err  # type: ignore[attr-defined]
        return done.out

    call("publish", "orders", stdin=b'{"id":1,"a":1}\n{"id":2,"a":2}\n', now=EARLY)
    call("publish", "orders", stdin=b'{"id":3,"a":3}\n')
    call("publish", "a/b", stdin=b'{"id":1,"b":"x"}\n', now=EARLY)
    return call


def _tables(path: str) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}


ALL_TABLES = {"orders": 3, "a/b": 1, "empty": 0, "totals": 3}


def test_a_database_has_a_table_for_each_topic(run: Callable[..., str]) -> None:
    pytest.importorskip("pyarrow")
    report = json.loads(run("export", ".*", "all.sqlite", "--json"))
    assert (report["records"], sorted(report["topics"])) == (7, sorted(ALL_TABLES))
    assert _tables("all.sqlite") == ALL_TABLES
    run("export", ".*", "all.sqlite", status=8)
    run("export", "orders", "all.sqlite", "--overwrite")
    assert _tables("all.sqlite") == {"orders": 3}


def test_tables_are_added_and_replaced_only_if_that_is_asked_for(run: Callable[..., str]) -> None:
    pytest.importorskip("pyarrow")
    run("export", "orders", "one.sqlite", "--add", "--at", EARLY)
    with closing(sqlite3.connect("one.sqlite")) as database, database:
        database.execute("CREATE TABLE own (x)")
        database.execute("CREATE VIEW empty AS SELECT 1")
    assert "SOW-EXC-027" in _error(run, "export", "orders", "one.sqlite", "--add")
    assert _tables("one.sqlite") == {"orders": 2, "own": 0}
    # One table that cannot be replaced leaves all unchanged.
    said = _error(run, "export", "orders|empty", "one.sqlite", "--add", "--overwrite")
    # Without --add, the other tables would be lost.
    assert "SOW-EXC-028" in said and "without --add" not in said
    assert _tables("one.sqlite") == {"orders": 2, "own": 0}
    run("export", "orders|a/b", "one.sqlite", "--add", "--overwrite")
    assert _tables("one.sqlite") == {"orders": 3, "own": 0, "a/b": 1}


def _error(run: Callable[..., str], *argv: str) -> str:
    run(*argv, status=8)
    return str(run.err)  # type: ignore[attr-defined]


def test_a_file_that_is_no_database_is_left_alone(run: Callable[..., str]) -> None:
    pytest.importorskip("pyarrow")
    Path("a.sqlite").write_text("text")
    assert "SOW-EXC-028" in _error(run, "export", "orders", "a.sqlite", "--add")
    assert Path("a.sqlite").read_text() == "text"
    run("export", "orders", "a.csv", "--add", status=2)
    run("export", "orders", "a.csv", "--format", "csv", status=2)


def _tables_of_duckdb(path: str) -> dict[str, int]:
    import duckdb

    with duckdb.connect(path) as database:
        names = [name for (name,) in database.execute("SHOW TABLES").fetchall()]
        return {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}


def test_duckdb(run: Callable[..., str]) -> None:
    pytest.importorskip("duckdb")
    run("export", ".*", "all.duckdb", "--at", EARLY)
    assert _tables_of_duckdb("all.duckdb") == ALL_TABLES | {"orders": 2, "totals": 2}
    assert "SOW-EXC-027" in _error(run, "export", "orders", "all.duckdb", "--add")
    run("export", "orders", "all.duckdb", "--add", "--overwrite")
    assert _tables_of_duckdb("all.duckdb") == ALL_TABLES | {"totals": 2}
    run("export", "orders", "one.duckdb")
    run("export", "orders", "one.duckdb", status=8)
    run("export", "a/b", "one.duckdb", "--add")
    assert _tables_of_duckdb("one.duckdb") == {"orders": 3, "a/b": 1}
    assert "SOW-EXC-027" in _error(run, "export", "a/b|empty", "one.duckdb", "--add")


def test_a_directory_has_a_file_for_each_topic(run: Callable[..., str]) -> None:
    run("export", ".*", "out/")
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "a%2Fb.ndjson", "empty.ndjson", "orders.ndjson", "totals.ndjson"
    ]  # fmt: skip
    assert Path("out/orders.ndjson").read_text() == run("query", "orders")
    run("diff", "orders", "out/orders.ndjson")
    # All are checked before the first is written.
    Path("out/orders.ndjson").unlink()
    run("export", ".*", "out", status=8)
    assert not Path("out/orders.ndjson").exists()
    run("export", ".*", "out", "--overwrite")
    run("export", ".*", "out", "--format", "csv.gz", "--at", EARLY)
    run("export", "orders", "new/x-{topic}.tsv")
    assert Path("new/x-orders.tsv").exists()
    run("export", "orders", "out", "--format", "nonsense", status=2)
    run("export", "orders", "out/{topic}.csv", "--format", "csv", status=2)


@pytest.mark.parametrize("form", ["ndjson", "csv", "sqlite"])
def test_a_topic_that_cannot_be_read_leaves_no_files(form: str, run: Callable[..., str]) -> None:
    if form == "sqlite":
        pytest.importorskip("pyarrow")
    Path("out").mkdir()
    Path("out", f"orders.{form}").write_text("before")
    run("export", "orders|a/b", "copy/", "--format", form)
    # It is written after that of orders.
    (damaged,) = Path("sow").glob("a*b*.sow")
    damaged.write_bytes(b"no store" * 2000)
    for place in ("out/", "new/"):
        run("export", ".*", place, "--format", form, "--overwrite", status=5)
        assert "no files were written" in run.err  # type: ignore[attr-defined]
    assert [path.read_text() for path in Path("out").iterdir()] == ["before"]
    assert not Path("new").exists()


def test_topics_that_differ_in_case_are_no_files_of_one_directory(cli: Cli) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("T"), ("t", "T")))
    done = cli("export", "t|T", "out/")
    assert (done.status, "SOW-EXC-026" in done.err, Path("out").exists()) == (2, True, False)


def test_each_topic_has_a_file_of_its_own(cli: Cli) -> None:
    names = ("a/b", "a%2Fb", "a%b")
    Path("sowctl.xml").write_text(
        config_xml("".join(topic_xml(name, file=f"sow/{at}.sow") for at, name in enumerate(names)), names)
    )
    for name in names:
        cli("publish", name, stdin=json.dumps({"id": name}).encode())
    for _ in range(2):
        assert cli("export", ".*", "out/", "--overwrite").status == 0
    found = {path.name: json.loads(path.read_text())["id"] for path in Path("out").iterdir()}
    assert found == {"a%2Fb.ndjson": "a/b", "a%252Fb.ndjson": "a%2Fb", "a%25b.ndjson": "a%b"}
    assert cli("snapshot", ".*", "--at", "-0s", "--to", "then").status == 0
    for name, file in zip(names, ("a%2Fb", "a%252Fb", "a%25b"), strict=True):
        assert json.loads(cli("query", f"then/{file}.json.sow").out)["id"] == name


@pytest.mark.parametrize("name", ["sqlite_x", "SQLite_master"])
def test_names_that_sqlite_reserves_are_no_tables(cli: Cli, name: str) -> None:
    pytest.importorskip("pyarrow")
    Path("sowctl.xml").write_text(config_xml(topic_xml("orders") + topic_xml(name), ("orders", name)))
    for topic in ("orders", name):
        cli("publish", topic, stdin=b'{"id":1}')
    cli("export", "orders", "old.sqlite")
    for argv in (
        (name, "q.sqlite"), (name, "q.sqlite", "--changes"), (".*", "q.sqlite"), (".*", "out/", "--format", "sqlite"),
        (name, "old.sqlite", "--add"),
    ):  # fmt: skip
        done = cli("export", *argv)
        assert (done.status, "SOW-EXC-029" in done.err) == (2, True), done
    assert not Path("q.sqlite").exists() and not Path("out").exists()
    assert cli("export", name, "q.ndjson").status == 0


def test_snapshots_of_all_topics_are_of_one_instant(run: Callable[..., str]) -> None:
    reports = json.loads(run("snapshot", ".*", "--at", EARLY, "--to", "early", "--json"))
    assert {(one["topic"], one["records"]) for one in reports} == {("orders", 2), ("a/b", 1), ("empty", 0)}
    assert len({one["at"] for one in reports}) == 1
    assert run("query", "early/orders.json.sow", "--count") == "2\n"
    assert {path.name for path in Path("early").glob("*.sow")} == {
        "orders.json.sow", "a%2Fb.json.sow", "empty.json.sow"
    }  # fmt: skip
    run("snapshot", ".*", "--at", EARLY, "--to", "early", status=8)
    run("snapshot", ".*", "--at", EARLY, "--to", "early", "--force")
    run("snapshot", "orders", "/id = 1", "--at", LATE, "--to", "one")
    assert run("query", "one/orders.json.sow", "--count") == "1\n"
    run("snapshot", "orders", "--at", LATE, "--to", "one", "--output", "x.sow", status=2)
    run("snapshot", "orders", "--at", LATE, "--to", "one", "--format", "csv", status=2)


def test_a_snapshot_that_fails_leaves_no_store(cli: Cli) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("alone"), ("t",)))
    for topic in ("t", "alone"):
        assert cli("publish", topic, "--now", LATE, stdin=b'{"id":1}\n').status == 0
    # A topic without a journal has no past states.
    assert cli("snapshot", ".*", "--at", EARLY, "--to", "early", "--now", LATE).status != 0
    assert not list(Path("early").iterdir())


def test_a_digest_over_all_topics(run: Callable[..., str]) -> None:
    lines = [line.split("  ", 1) for line in run("hash", "--all").splitlines()]
    assert [name for _, name in lines] == ["orders", "a/b", "empty", "(all)"]
    assert [digest for digest, _ in lines[:-1]] == [run("hash", name).split()[0] for name in ("orders", "a/b", "empty")]
    # As described on the page, so that others can compute it.
    text = "".join(sorted(f"{name}.json {digest}\n" for digest, name in lines[:-1]))
    whole = hashlib.sha256(text.encode()).hexdigest()[:32]
    assert lines[-1][0] == whole
    found = json.loads(run("hash", "--all", "--json"))
    assert (found["digest"], len(found["topics"])) == (whole, 3)
    run("hash", "--all", "--expect", whole)
    run("hash", "--all", "--expect", "0" * 32, status=1)
    assert sowctl.open("sowctl.xml").digest().digest == whole
    assert run("hash", "orders|a/b|empty", now=LATE).splitlines()[-1].split()[0] == whole
    assert run("hash", "--all", "--at", EARLY).splitlines()[-1].split()[0] != whole
    assert run("hash", "--all", "--filter", "/id = 1").splitlines()[-1].split()[0] != whole
    run("hash", status=2)
    run("hash", "orders", "--all", status=2)
    run("hash", "orders", "/id = 1")


def test_keys_from_a_file_and_from_standard_input(run: Callable[..., str]) -> None:
    Path("keys").write_bytes(b"3\n\n1\r\n2")
    ids = [json.loads(line)["id"] for line in run("get", "orders", "2", "--keys-from", "keys").splitlines()]
    assert ids == [2, 3, 1, 2]
    assert run("get", "orders", "--keys-from", "-", stdin=b"1\n") == run("get", "orders", "1")
    many = "".join(f"{number}\n" for number in range(1, 2500)).encode()
    assert len(json.loads(run("get", "orders", "--keys-from", "-", "--json", stdin=many, status=1))) == 3
    assert len(run.err.splitlines()) == 11  # type: ignore[attr-defined]
    assert run("get", "orders", "--keys-from", "/dev/null") == ""
    run("get", "orders", status=2)
    run("get", "orders", "--keys-from", "missing", status=10)


def test_histories_of_keys_from_a_file(run: Callable[..., str]) -> None:
    Path("keys").write_bytes(b"1\n2\n")
    told = run("history", "orders", "1", "2", "--journal")
    assert run("history", "orders", "--journal", "--keys-from", "keys") == told
    changes = json.loads(run("history", "orders", "--journal", "--keys-from", "keys", "--diff", "--json"))
    assert [one["change"] for one in changes] == ["added", "added"]
    assert json.loads(run("history", "orders", "9", "--journal", "--diff", "--json", status=1)) == []
    assert run("history", "orders", "1", "2", "--journal", "--diff").count("orders ") == 2


def test_python(run: Callable[..., str]) -> None:
    pytest.importorskip("pyarrow")
    instance = sowctl.open("sowctl.xml")
    assert [one.records for one in instance.export("out/")] == [3, 1, 0, 3]
    assert [one.records for one in instance.export("all.sqlite", "orders|empty")] == [3]
    assert instance.topic("a/b").export("all.sqlite", add=True).records == 1
    assert _tables("all.sqlite") == {"orders": 3, "empty": 0, "a/b": 1}
    assert [one.records for one in instance.snapshot("stores", at=EARLY)] == [2, 1, 0]
    with pytest.raises(sowctl.UsageError):
        instance.export("all.parquet")

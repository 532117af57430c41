"""``--output`` writes the format of the file name's ending; an explicit --format has precedence, with a note."""

from __future__ import annotations

import gzip
import json
import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")
pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")

import zstandard
from pyarrow import feather, ipc, parquet

from sowctl.errors import RefusedError
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

ROWS = [{"id": 1, "s": "a,b"}, {"id": 2, "s": "c"}]
CSV, TSV = 'id,s\n1,"a,b"\n2,c\n', "id\ts\n1\ta,b\n2\tc\n"
LINES = '{"id":1,"s":"a,b"}\n{"id":2,"s":"c"}\n'


def in_database(path: Path) -> list[dict[str, object]]:
    with sqlite3.connect(path) as database:
        ((table,),) = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [dict(zip(("id", "s"), row, strict=True)) for row in database.execute(f'SELECT id, s FROM "{table}"')]


def unpacked(path: Path) -> str:
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()).decode()


def lines_of(found: object) -> list[object]:
    return found.split("\n") if isinstance(found, str) else list(found)  # type: ignore[call-overload]


READ: dict[str, tuple[Callable[[Path], object], object]] = {
    "parquet": (lambda path: parquet.read_table(path).to_pylist(), ROWS),
    "PQ": (lambda path: parquet.read_table(path).to_pylist(), ROWS),
    "arrow": (lambda path: ipc.open_file(path.read_bytes()).read_all().to_pylist(), ROWS),
    "feather": (lambda path: feather.read_table(path).to_pylist(), ROWS),
    "arrows": (lambda path: ipc.open_stream(path.read_bytes()).read_all().to_pylist(), ROWS),
    "sqlite": (in_database, ROWS),
    "msgpack": (lambda path: len(path.read_bytes()) and path.read_bytes()[0] >> 4, 8),
    "json": (lambda path: json.loads(path.read_bytes()), ROWS),
    "csv": (Path.read_text, CSV),
    "tsv": (Path.read_text, TSV),
    "ndjson": (Path.read_text, LINES),
    "csv.gz": (lambda path: gzip.decompress(path.read_bytes()).decode(), CSV),
    "ndjson.zst": (unpacked, LINES),
    "json.gz": (lambda path: json.loads(gzip.decompress(path.read_bytes())), ROWS),
    # A name without an ending.
    "out": (Path.read_text, LINES),
}
WRITERS = {
    "query": ["query", "t", "--output"],
    "sql": ["sql", "SELECT id, s FROM t ORDER BY id", "--output"],
    "get": ["get", "t", "1", "2", "--output"],
    "snapshot": ["snapshot", "t", "--at", "2099-01-01", "--output"],
    "export": ["export", "t"],
}


@pytest.fixture
def shop(cli: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    assert cli("publish", "t", stdin=LINES.encode()).status == 0
    return cli


@pytest.mark.parametrize("ending", READ)
@pytest.mark.parametrize("command", WRITERS)
def test_the_name_says_the_format(command: str, ending: str, shop: Cli) -> None:
    done = shop(*WRITERS[command], f"x.{ending}", *(["--order-by", "/id"] if command in ("query", "export") else []))
    if command == "export" and ending == "out":
        assert (done.status, "SOW-EXC-002" in done.err, Path("x.out").exists()) == (2, True, False)
        return
    assert done.status == 0, done.err
    read, wanted = READ[ending]
    found = read(Path(f"x.{ending}"))
    if command in ("get", "snapshot") and not isinstance(wanted, int):
        # In their own order.
        found, wanted = sorted(map(str, lines_of(found))), sorted(map(str, lines_of(wanted)))
    assert found == wanted
    assert "does not say" not in done.err


def test_an_explicit_format_wins(shop: Cli) -> None:
    done = shop("query", "t", "--order-by", "/id", "--format", "csv", "--output", "x.parquet")
    assert (done.status, Path("x.parquet").read_text()) == (0, CSV)
    assert "x.parquet" in done.err and "csv" in done.err
    done = shop("query", "t", "--order-by", "/id", "--format", "csv", "--output", "x.csv.gz")
    assert (done.err, gzip.decompress(Path("x.csv.gz").read_bytes()).decode()) == ("", CSV)


def test_options_that_say_a_format_win(shop: Cli) -> None:
    done = shop("query", "t", "--order-by", "/id", "--template", "{/id};", "--output", "x.csv")
    assert (done.status, Path("x.csv").read_text()) == (0, "1;\n2;\n")
    assert "template" in done.err


def test_a_table_of_a_database_is_called_like_the_topic(shop: Cli) -> None:
    assert shop("query", "t", "--output", "x.db").status == 0
    with sqlite3.connect("x.db") as database:
        assert database.execute("SELECT count(*) FROM t").fetchall() == [(2,)]


@pytest.mark.parametrize("packing", ["gz", "zst"])
@pytest.mark.parametrize("ending", ["parquet", "db", "arrow", "arrows", "msgpack"])
@pytest.mark.parametrize("command", WRITERS)
def test_a_format_that_is_no_text_is_not_packed(command: str, ending: str, packing: str, shop: Cli) -> None:
    done = shop(*WRITERS[command], f"x.{ending}.{packing}")
    assert (done.status, "SOW-EXC-002" in done.err, Path(f"x.{ending}.{packing}").exists()) == (2, True, False)


@pytest.mark.parametrize("name", ["x.gz", "x.csv.gz", "x.parquet.zst"])
def test_an_explicit_format_that_is_no_text_is_not_packed(name: str, shop: Cli) -> None:
    done = shop("query", "t", "--format", "parquet", "--output", name)
    assert (done.status, "SOW-EXC-002" in done.err, Path(name).exists()) == (2, True, False)


@pytest.mark.parametrize(
    ("options", "name", "label", "wanted"),
    [
        ((), "x.parquet.gz", "Parquet", "x.parquet"),
        ((), "x.DB.ZST", "SQLite", "x.DB"),
        ((), "x.arrows.gz", "Arrow", "x.arrows"),
        ((), "x.msgpack.zst", "MessagePack", "x.msgpack"),
        (("--format", "parquet"), "x.gz", "Parquet", "x.parquet"),
        (("--format", "parquet"), "x.csv.gz", "Parquet", "x.parquet"),
        (("--format", "arrow"), "./a.b.gz", "Arrow", "a.b.arrow"),
        (("--format", "msgpack"), "x.db.gz", "MessagePack", "x.msgpack"),
    ],
)
def test_the_hint_names_the_file_to_write(
    options: tuple[str, ...], name: str, label: str, wanted: str, shop: Cli
) -> None:
    done = shop("query", "t", *options, "--output", name)
    assert re.search(rf": {re.escape(label)} .* \.{Path(name).suffix[1:]} ", done.err) and f"use {wanted};" in done.err
    assert shop("query", "t", *options, "--output", wanted).status == 0


TEXTS = {
    "raw": ["query", "t", "--format", "raw"],
    "lengths": ["query", "t", "--format", "raw", "--length-prefix"],
    "template": ["query", "t", "--template", "{/id};"],
    "table": ["query", "t", "--format", "table"],
    "a table of SQL": ["sql", "SELECT id FROM t", "--format", "table"],
    "a chart": ["stats", "t", "--format", "table"],
    "a schema": ["schema", "t", "--ddl"],
    "a count": ["query", "t", "--count"],
    "a plan": ["query", "t", "--explain"],
}


@pytest.mark.parametrize("name", ["x.gz", "x.txt.zst", "x.ndjson.gz"])
@pytest.mark.parametrize("text", TEXTS)
def test_every_text_is_packed(text: str, name: str, shop: Cli) -> None:
    plain, packing = name.removesuffix(".gz").removesuffix(".zst"), Path(name).suffix
    for file in (plain, name):
        done = shop(*TEXTS[text], "--output", file)
        assert done.status == 0, done.err
    unpack = gzip.decompress if packing == ".gz" else zstandard.ZstdDecompressor().decompressobj().decompress
    read = unpack(Path(name).read_bytes())
    assert (read, read != b"") == (Path(plain).read_bytes(), True)


@pytest.mark.parametrize("ending", ["arrow", "feather", "ipc"])
@pytest.mark.parametrize("more", [(), ("--format", "arrow")])
@pytest.mark.parametrize(
    "command", [("query", "t"), ("history", "t", "1", "--journal"), ("sql", "SELECT id FROM t"), ("get", "t", "1")]
)
def test_an_arrow_file_is_no_stream(command: tuple[str, ...], more: tuple[str, ...], ending: str, shop: Cli) -> None:
    done = shop(*command, *more, "--quiet", "--output", f"x.{ending}")
    assert (done.status, done.err) == (0, "")
    assert ipc.open_file(Path(f"x.{ending}").read_bytes()).read_all().num_rows


def test_a_stream_by_name_and_elsewhere(shop: Cli) -> None:
    for name in ("x.arrows", "x.out"):
        assert shop("query", "t", "--format", "arrow", "--output", name).status == 0
        assert ipc.open_stream(Path(name).read_bytes()).read_all().num_rows == 2


@pytest.mark.parametrize(("name", "wanted"), [("n.txt", "2\n"), ("n", "2\n")])
def test_a_count_goes_to_the_file(name: str, wanted: str, shop: Cli) -> None:
    done = shop("query", "t", "--count", "--output", name)
    assert (done.status, done.out, Path(name).read_text()) == (0, "", wanted)
    again = shop("query", "t", "--count", "--output", name)
    assert (again.status, "SOW-CLI-011" in again.err) == (RefusedError.exit_status, True)


def test_a_count_has_the_format_of_the_name(shop: Cli) -> None:
    for more in ((), ("--format", "json")):
        done = shop("query", "t", "--count", *more, "--force", "--output", "n.json")
        assert (done.status, done.out) == (0, "")
        assert json.loads(Path("n.json").read_bytes())[0]["returned"] == 2
    assert shop("query", "t", "--count", "--output", "n.parquet").status == 0
    assert parquet.read_table("n.parquet").to_pylist()[0]["returned"] == 2


def test_a_plan_goes_to_the_file(shop: Cli) -> None:
    plan = shop("query", "t", "--explain").out
    done = shop("query", "t", "--explain", "--output", "plan.txt")
    assert (done.status, done.out, Path("plan.txt").read_text()) == (0, "", plan)
    assert shop("query", "t", "--explain", "--output", "plan.ndjson").status == 0
    assert json.loads(Path("plan.ndjson").read_bytes())
    done = shop("query", "t", "--explain", "--output", "plan.parquet")
    assert (done.status, "SOW-OUT-012" in done.err, Path("plan.parquet").exists()) == (2, True, False)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "db", "msgpack"])
@pytest.mark.parametrize("options", [("--no-headers",), ("--columns", "/id", "--no-headers"), ("--template", "{/id}")])
def test_an_option_of_texts_is_refused_for_other_files(options: tuple[str, ...], ending: str, shop: Cli) -> None:
    done = shop("query", "t", *options, "--output", f"x.{ending}")
    assert (done.status, "SOW-OUT-012" in done.err, Path(f"x.{ending}").exists()) == (2, True, False)


def test_a_link_is_written_through(shop: Cli) -> None:
    Path("d").mkdir()
    Path("x.csv").symlink_to("d/target.csv")
    assert shop("query", "t", "--order-by", "/id", "--output", "x.csv").status == 0
    assert Path("x.csv").is_symlink() and Path("d/target.csv").read_text() == CSV
    assert "SOW-CLI-011" in shop("query", "t", "--output", "x.csv").err
    assert shop("query", "t", "--count", "--format", "csv", "--output", "x.csv", "--force").status == 0
    assert Path("x.csv").is_symlink() and Path("d/target.csv").read_text() != CSV
    assert [path.name for path in Path("d").iterdir()] == ["target.csv"]


def test_links_that_lead_nowhere_are_refused(shop: Cli) -> None:
    Path("x.csv").symlink_to("y.csv")
    Path("y.csv").symlink_to("x.csv")
    done = shop("query", "t", "--output", "x.csv")
    assert done.status not in (0, 70) and Path("x.csv").is_symlink()
    Path("z.csv").symlink_to("absent/z.csv")
    done = shop("query", "t", "--output", "z.csv")
    assert done.status not in (0, 70) and Path("z.csv").is_symlink()


def test_a_link_to_a_pipe_is_written_to(shop: Cli) -> None:
    # As for /dev/stdout and >(command): the link has no target name.
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as rest:
        try:
            done = shop("query", "t", "--output", f"/dev/fd/{writing}")
        finally:
            os.close(writing)
        assert (done.status, done.err) == (0, "")
        assert rest.read().decode() == shop("query", "t").out


@pytest.mark.parametrize(
    "words",
    [
        "backup s3://lake/x",
        "restore s3://lake/x --to new",
        "restore old --to s3://lake/x",
        "snapshot t --at now --to s3://lake/x",
        "snapshot t --at now --output s3://lake/x.sow",
        "export t s3://lake/x/",
        "export t s3://lake/x.csv",
        "config init s3://lake/x --topic a=/id",
        "demo s3://lake/x",
    ],
)
def test_a_url_is_no_directory_of_this_machine(shop: Cli, words: str) -> None:
    before = sorted(Path().iterdir())
    result = shop(*words.split())
    assert result.status == 2 and "SOW-RMT-001" in result.err and "s3://lake/x" in result.err
    assert sorted(Path().iterdir()) == before

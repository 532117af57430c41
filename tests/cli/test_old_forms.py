"""Inputs of old systems - carriage returns, byte order marks, UTF-16, other separators, bytes after packed data: read,
or refused with the correct reason; never silently empty, and never with other characters."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Cli
from tests.support.examples import examples
from tests.support.instances import config_xml, topic_xml

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")

MORE = "".join(
    f"<Topic><Name>{kind}</Name><MessageType>{kind}</MessageType><Key>{key}</Key><FileName>sow/%n.sow</FileName></Topic>"
    for kind, key in (("fix", "/1"), ("nvfix", "/id"), ("xml", "/a/id"))
)
BOM = b"\xef\xbb\xbf"


@pytest.fixture
def shop(cli: Cli) -> Cli:
    """Topics t of JSON with the key id, and fix, nvfix and xml of these types."""
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + MORE, ("t",)))
    return cli


def _rows(cli: Cli, topic: str = "t") -> list[str]:
    return sorted(cli("query", topic, "-q").out.splitlines())


ROWS = ['{"id":1,"a":"x"}', '{"id":2,"a":"y"}']


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [b"", None])
@pytest.mark.parametrize("name", ["old.csv", "old.tsv"])
def test_every_line_end_gives_the_rows(end: bytes, last: bytes | None, name: str, shop: Cli) -> None:
    text = b"id,a\n1,x\n\n2,y".replace(b"\n", end) + (end if last is None else last)
    Path(name).write_bytes(BOM + (text.replace(b",", b"\t") if name.endswith("tsv") else text))
    said = shop("publish", "t", "--from", name)
    assert (said.status, _rows(shop)) == (0, ROWS), said.err


def test_cells_in_quotes_keep_their_carriage_returns_and_bare_ones_are_refused(shop: Cli) -> None:
    Path("a.csv").write_bytes(b'id,a\r1,"x\ry\r\nz"\r')
    assert shop("publish", "t", "--from", "a.csv").status == 0
    assert json.loads(_rows(shop)[0])["a"] == "x\ry\r\nz"
    Path("b.csv").write_bytes(b"id,a\n7,x\r8\n9,z\n")
    said = shop("publish", "t", "--from", "b.csv", "--on-error", "skip")
    assert (said.status, "b.csv:2" in said.err, "carriage return" in said.err) == (3, True, True)
    assert [json.loads(row)["id"] for row in _rows(shop)] == [1, 9]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.sampled_from(["1", "a", '"q"', '"\r"', '"\n""\r\n"', "", ",", "\r", "\r\n", "\n"]), max_size=30),
    st.integers(1, 7),
)
def test_lines_of_any_ends_are_those_of_the_text(parts: list[str], size: int) -> None:
    import io

    from sowctl.arrow.inputs.rows import DelimitedReader, Dialect

    class Pieces(io.BytesIO):
        def read1(self, _: int | None = -1) -> bytes:
            return super().read(size)

    # The heading has a bare carriage return, so each of them ends a line; quotes are content of cells if they are not
    # parsed.
    text = "".join(parts)
    reader = DelimitedReader("x", Pieces(b"a\rb\r" + text.encode()), Dialect("\t", quotes=False))
    assert reader.read_first() == b"a"
    found = [line for block in reader.read_blocks(1) for line in block.texts]
    assert found == ["b", *(line for line in text.splitlines() if line)]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.sampled_from(["1", "a", ",", '"q"', '"\n"', '"\r\n,"', '""', "\n", "\r\n", "\n1,2\n"]), max_size=30),
    st.integers(1, 9),
)
def test_rows_do_not_depend_on_the_pieces_in_which_they_come(parts: list[str], size: int) -> None:
    import io

    from sowctl.arrow.inputs.rows import DelimitedReader, Dialect

    def read(size: int) -> list[object]:
        class Pieces(io.BytesIO):
            def read1(self, _: int | None = -1) -> bytes:
                return super().read(size)

        reader = DelimitedReader("x", Pieces(b"a,b\n" + "".join(parts).encode()), Dialect())
        reader.read_first()
        found: list[object] = []
        for block in reader.read_blocks(2):
            rows = [(line, *row) for line, row in zip(block.lines, zip(*block.columns, strict=True), strict=True)]
            found += sorted([*rows, *((one.line, one.raw, one.problem) for one in block.refused)], key=str)
        return sorted(found, key=str)

    assert read(size) == read(1 << 20)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.sampled_from(["1", "a", ",", '"', '"q"', '"a ""b"""', '"x,y"', '""', "\n", "\r\n", '\n"1",2\n'])))
def test_cells_in_quotes_are_read_alike_in_both_ways(parts: list[str]) -> None:
    import io

    from sowctl.arrow.inputs.rows import DelimitedReader, Dialect

    def read(nulls: frozenset[str]) -> object:
        reader = DelimitedReader("x", io.BytesIO(b"a,b\n" + "".join(parts).encode()), Dialect(nulls=nulls))
        reader.read_first()
        reader.marks_quotes = False
        blocks = [*reader.read_blocks(2)]
        rows = [
            (line, *row) for one in blocks for line, row in zip(one.lines, zip(*one.columns, strict=True), strict=True)
        ]
        return rows, [(row.line, row.raw, row.problem) for one in blocks for row in one.refused]

    # With two texts for null each row is split separately.
    assert read(frozenset({""})) == read(frozenset({"", "no cell has this text"}))


@pytest.mark.parametrize(("separator", "option"), [(";", ";"), ("|", "|"), ("\t", "tab"), ("\t", "\\t"), ("~", "~")])
def test_a_delimiter_separates_cells(separator: str, option: str, shop: Cli) -> None:
    text = 'id,a\n1,"x, ""or;|y"\n2,\n'.replace(",", separator)
    Path("a.csv").write_text(text)
    said = shop("publish", "t", "--from", "a.csv", "--delimiter", option)
    assert said.status == 0, said.err
    assert [json.loads(row) for row in _rows(shop)] == [{"id": 1, "a": f'x{separator} "or;|y'}, {"id": 2}]


@pytest.mark.parametrize("heading", ["id;name;a", '"id";"na,me";a', "id|name|a", "id\tname\ta"])
def test_a_separator_is_detected(heading: str, shop: Cli) -> None:
    separator = next(one for one in ";|\t" if one in heading)
    Path("a.csv").write_text(heading + "\n1;x,y;z\n".replace(";", separator))
    said = shop("publish", "t", "--from", "a.csv")
    assert said.status == 0, said.err
    assert [*json.loads(_rows(shop)[0]).values()] == [1, "x,y", "z"]


def test_of_two_separators_the_other_one_is_named(shop: Cli) -> None:
    Path("a.csv").write_text("id;price, net;a\n1;2;3\n")
    said = shop("publish", "t", "--from", "a.csv")
    assert (said.status, "SOW-EXC-012" in said.err, "--delimiter" in said.err) == (3, True, True), said.err
    Path("b.csv").write_text("id,a;b;c\n1,2\n")
    assert shop("publish", "t", "--from", "b.csv", "--delimiter", ",").status == 0
    assert _rows(shop) == ['{"id":1,"a;b;c":2}']


@pytest.mark.parametrize("given", ["", ";;", '"', "\n", "\r"])
def test_what_is_no_delimiter_is_refused(given: str, shop: Cli) -> None:
    Path("a.csv").write_text("id\n1\n")
    assert "SOW-EXC-010" in shop("publish", "t", "--from", "a.csv", "--delimiter", given).err


def test_words_that_are_null(shop: Cli) -> None:
    Path("a.csv").write_text('id,year,s\n1,NA,"NA"\n2,2000,-\n3,,x\n')
    options = ("--type", "year=integer", "--null-text", "NA", "--null-text", "-")
    assert shop("publish", "t", "--from", "a.csv", *options).status == 0
    assert _rows(shop) == ['{"id":1,"s":"NA"}', '{"id":2,"year":2000}', '{"id":3,"s":"x"}']
    said = shop("publish", "t", "--null-text", "NA", stdin=b"{}")
    assert (said.status, "SOW-EXC-010" in said.err) == (2, True)
    Path("a.ndjson").write_text("{}\n")
    assert "SOW-EXC-010" in shop("publish", "t", "--from", "a.ndjson", "--null-text", "NA").err


SOUND = b"".join(b'{"id":%d}\n' % number for number in range(5000))


def _packed(name: str, data: bytes) -> bytes:
    return gzip.compress(data, mtime=0) if name == "gz" else zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize(
    ("change", "count", "words"),
    [
        (lambda one: one, 5000, None),
        (lambda one: one + one, 5000, None),
        (lambda one: one + bytes(70_000), 5000, None),
        (lambda one: one + b"trailing\n", 5000, "unexpected bytes at"),
        (lambda one: one + bytes(70_000) + b"x", 5000, "unexpected bytes at"),
        (lambda one: one + one[:1], 5000, "unexpected bytes at"),
        (lambda one: one[:-1], None, "truncated"),
        (lambda one: one + one[:-5], None, "truncated"),
    ],
)
def test_what_stands_behind_packed_data(
    ending: str, change: object, count: int | None, words: str | None, shop: Cli
) -> None:
    data = change(_packed(ending, SOUND))  # type: ignore[operator]
    Path(f"a.ndjson.{ending}").write_bytes(data)
    said = shop("publish", "t", f"a.ndjson.{ending}")
    assert said.status == (0 if words is None else 6), said.err
    assert words is None or words in said.err
    assert count is None or len(_rows(shop)) == count
    if words == "unexpected bytes at":
        at = int(said.err.partition("unexpected bytes at ")[2].split()[0].rstrip(","))
        assert data[at:] in (b"trailing\n", b"x", data[-1:])


def test_frames_of_zstandard_that_readers_skip(shop: Cli) -> None:
    skipped = b"\x5a\x2a\x4d\x18\x03\0\0\0abc"
    Path("a.ndjson.zst").write_bytes(_packed("zst", SOUND) + skipped + _packed("zst", b'{"id":-1}\n'))
    assert shop("publish", "t", "a.ndjson.zst").status == 0
    assert len(_rows(shop)) == 5001
    Path("b.ndjson.zst").write_bytes(skipped + _packed("zst", b'{"id":-2}\n'))
    assert shop("publish", "t", "b.ndjson.zst").status == 0
    assert len(_rows(shop)) == 5002


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ("t", '{"id":1}\n'),
        ("nvfix", "id=1\x01a=2\n"),
        ("fix", "1=a\x012=b\n"),
        ("csv", "id,a\n1,x\n"),
        ("e", '{"data":{"id":1}}'),
    ],
)
def test_other_encodings_are_named(encoding: str, topic: str, text: str, shop: Cli) -> None:
    data = text.encode(encoding)
    Path("in.csv").write_bytes(data)
    argv = {"csv": ("publish", "t", "--from", "in.csv"), "e": ("publish", "t", "--framing", "envelope", "in.csv")}
    said = shop(*argv.get(topic, ("publish", topic, "in.csv")))
    assert said.status == 3 and "SOW-" in said.err
    # Zero bytes next to each letter indicate UTF-16; no parser accepts those of UTF-32 without a byte order mark.
    assert "SOW-INP-006" in said.err and "iconv -f UTF-" in said.err
    assert not _rows(shop, "t" if topic in ("csv", "e") else topic)
    if topic in ("nvfix", "t"):
        assert "SOW-INP-006" in shop("eval", "/id", "in.csv", "--message-type", {"t": "json"}.get(topic, topic)).err
        assert "SOW-INP-006" in shop("key", topic, "in.csv").err
        assert "SOW-INP-006" in shop("delete", topic, "--data", "in.csv", "--yes").err


def test_carriage_returns_alone_end_no_line_of_messages(shop: Cli) -> None:
    said = shop("publish", "nvfix", stdin=b"id=1\x01a=2\rid=2\x01a=3\r")
    assert (said.status, "SOW-INP-007" in said.err, r"tr '\r' '\n'" in said.err) == (3, True, True), said.err
    assert _rows(shop, "nvfix") == []
    assert shop("publish", "nvfix", stdin=b"id=1\x01a=2\r\n").status == 0
    assert shop("publish", "nvfix", stdin=b"id=3\x01a=b\rc\nid=4\x01\n").status == 0
    # White space of JSON and of XML, which the parser recognizes.
    assert shop("publish", "t", stdin=b'{"id":1,\r"a":2}').status == 0
    assert shop("publish", "xml", stdin=b"<a>\r<id>1</id></a>").status == 0
    said = shop("publish", "xml", stdin=b"<a><id>1</id></a>\r<a><id>2</id></a>\r")
    assert (said.status, r"tr '\r' '\n'" in said.err) == (3, True)


def test_a_mark_is_no_part_of_a_name(shop: Cli) -> None:
    assert shop("publish", "nvfix", stdin=BOM + b"id=1\x01\n").status == 0
    said = shop("publish", "nvfix", "--framing", "nul", stdin=BOM + b"id=2\x01\0")
    assert (said.status, "SOW-INP-006" in said.err) == (3, True)
    assert _rows(shop, "nvfix") == ['{"id":1}']


DECLARED = b'<?xml version="1.0" encoding="%s"?><a><id>Zo\xc3\xab</id></a>'


@pytest.mark.parametrize("framing", ["lines", "nul"])
def test_a_mark_against_the_declaration_refuses_xml(framing: str, shop: Cli) -> None:
    for name in (b"ISO-8859-1", b"windows-1252", b"us-ascii"):
        said = shop("publish", "xml", "--framing", framing, stdin=BOM + DECLARED % name)
        assert (said.status, "byte order mark" in said.err) == (3, True), said.err
    assert shop("publish", "xml", "--framing", framing, stdin=BOM + DECLARED % b"UTF-8").status == 0
    assert "Zoë" in _rows(shop, "xml")[0]


@pytest.mark.parametrize(("mark", "encoding"), [(BOM, "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")])
def test_a_mark_against_the_declaration_refuses_a_configuration(mark: bytes, encoding: str, cli: Cli) -> None:
    text = config_xml(topic_xml("t"), ())
    for declared in ("UTF-8", "ISO-8859-1", "utf-16", "us-ascii", "UTF-16LE", "none"):
        Path("sowctl.xml").write_bytes(mark + f'<?xml version="1.0" encoding="{declared}"?>{text}'.encode(encoding))
        said = cli("validate")
        right = declared.lower().replace("16le", "16-le") in (
            encoding,
            encoding[:6] if encoding != "utf-8" else encoding,
        )
        assert ("X014" in said.out + said.err) is not right, (declared, said.out)


def test_scripts_have_marks_and_any_line_ends(shop: Cli) -> None:
    shop("publish", "t", stdin=b'{"id":1}')
    for end in (b"\r", b"\n", b"\r\n"):
        said = shop("shell", stdin=BOM + b"# x" + end + b"query t -q" + end + b"query t '1=1' -q" + end)
        assert (said.status, said.out) == (0, '{"id":1}\n' * 2), said.err
    said = shop("shell", stdin="query t\n".encode("utf-16"))
    assert (said.status, "SOW-INP-006" in said.err) == (3, True)


def test_statements_are_utf_8(shop: Cli) -> None:
    pytest.importorskip("duckdb")
    shop("publish", "t", stdin=b'{"id":1}')
    text = "-- first\rSELECT 'Zoë' AS s"
    Path("a.sql").write_bytes(BOM + text.encode())
    assert shop("sql", "--file", "a.sql", "-q").out == '{"s":"Zoë"}\n'
    for encoding in ("latin-1", "utf-16", "utf-16-le"):
        Path("b.sql").write_bytes(text.encode(encoding))
        said = shop("sql", "--file", "b.sql")
        assert (said.status, "SOW-INP-006" in said.err) == (3, True), said.err


@pytest.mark.parametrize("content", [bytes(3000), b"\x01\x02abc" * 40, b"id,n\x1f\n1,2\n"])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_heading_that_is_no_text(content: bytes, ending: str, cli: Cli, tmp_path: Path) -> None:
    """Without a line feed all of such a file is its heading: no row, and no output of its text."""
    pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    (tmp_path / f"x.{ending}").write_bytes(content)
    done = cli("publish", "t", "--from", f"x.{ending}")
    assert (done.status, "SOW-EXC-012" in done.err) == (3, True), done.err

"""Every message type from end to end: queries, deltas, rebuilt stores, evaluations, dumps, envelopes."""

from __future__ import annotations

import io
import json
import shutil
import struct
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import bson
import msgpack
import pytest

from sowctl.cli.main import main
from tests.support.protosamples import ORDER3, Order, order_set

NOW = 1_790_000_000
Record = Mapping[str, Any]
ROWS: list[dict[str, Any]] = [
    {"n": 1, "a": "one", "f": 1.5},
    {"n": 2, "a": "two", "f": 2.5},
    {"n": 3, "a": "three", "f": 3.5},
    {"n": 4, "a": "four", "f": 0.5},
]
TAGS = {"a": "1", "n": "2", "f": "3"}


def framed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4) + part for part in parts)


def flat(record: Record, separator: str = ";", names: Mapping[str, str] | None = None) -> bytes:
    return "".join(f"{(names or {}).get(name, name)}={value}{separator}" for name, value in record.items()).encode()


def as_json(record: Record) -> bytes:
    return json.dumps(dict(record)).encode()


def as_xml(record: Record) -> bytes:
    return ("<m>" + "".join(f"<{name}>{value}</{name}>" for name, value in record.items()) + "</m>").encode()


def as_bflat(record: Record) -> bytes:
    parts = []
    if "n" in record:
        parts.append(b"\x19n" + bytes([record["n"]]))
    if "a" in record:
        parts.append(b"\x09a" + bytes([len(record["a"])]) + record["a"].encode())
    if "f" in record:
        parts.append(b"\x39f" + struct.pack("<d", record["f"]))
    return b"".join(parts)


def as_local(record: Record) -> bytes:
    return framed(as_json(record), b"\x00\xff" if "a" in record else b"")


def as_global(record: Record) -> bytes:
    return framed(as_json({"n": record["n"]}), flat({name: record[name] for name in record if name != "n"}))


def as_struct(record: Record) -> bytes:
    return struct.pack("<B8sd", record["n"], record["a"].encode(), record["f"])


def as_protobuf(record: Record) -> bytes:
    return bytes(Order(**record).SerializeToString())


class Kind(NamedTuple):
    """A type: its name, a function that writes its messages, and its definition."""

    name: str
    encode: Callable[[Record], bytes]
    definition: str = ""
    path: str = "/"
    merges: bool = True
    lines: bool = False

    def at(self, name: str) -> str:
        return self.path + (TAGS[name] if self.name == "fix" else name)

    def __str__(self) -> str:
        return self.name


SEMI = Kind("semi", flat, "<Module>nvfix</Module><FieldSeparator>59</FieldSeparator>", lines=True)
PAIR = "<MessageType>json</MessageType><MessageType>{}</MessageType>"
KINDS = [
    Kind("json", as_json, lines=True),
    Kind("fix", lambda record: flat(record, "\x01", TAGS), lines=True),
    Kind("nvfix", lambda record: flat(record, "\x01"), lines=True),
    SEMI,
    Kind("xml", as_xml, path="/m/", lines=True),
    Kind("bson", bson.encode),
    Kind("msgpack", msgpack.packb),
    Kind("bflat", as_bflat),
    Kind("local", as_local, "<Module>composite-local</Module>" + PAIR.format("binary"), path="/0/"),
    Kind("global", as_global, "<Module>composite-global</Module>" + PAIR.format("semi"), merges=False),
    Kind(
        "orders2",
        as_protobuf,
        "<Module>protobuf</Module><Type>trade.Order</Type><ProtoFile>order.desc</ProtoFile><ProtoPath>.</ProtoPath>",
    ),
    Kind(
        "orders3",
        as_protobuf,
        "<Module>protobuf</Module><Type>trade.Order</Type><ProtoPath>p;.</ProtoPath><ProtoFile>p/o.proto</ProtoFile>",
        merges=False,
    ),
    Kind(
        "fixed",
        as_struct,
        "<Module>struct</Module><Field>/n = B</Field><Field>/a = 8S</Field><Field>/f = d</Field>",
        merges=False,
    ),
]
EVERY = pytest.mark.parametrize("kind", KINDS, ids=str)


@dataclass
class Place:
    """A directory with an instance of one topic ``t``."""

    root: Path
    kind: Kind
    now: int = NOW
    more: str = ""

    def __post_init__(self) -> None:
        self.root.mkdir()
        (self.root / "order.desc").write_bytes(order_set().SerializeToString())
        (self.root / "o.proto").write_text(ORDER3)
        types = [one for one in dict.fromkeys((SEMI, self.kind)) if one.definition]
        defined = "".join(f"<MessageType><Name>{one.name}</Name>{one.definition}</MessageType>" for one in types)
        named = f"<Name>t</Name><MessageType>{self.kind.name}</MessageType>"
        (self.root / "sowctl.xml").write_text(
            f"<AMPSConfig><Name>x</Name><MessageTypes>{defined}</MessageTypes>"
            f"<SOW><Topic>{named}<Key>{self.kind.at('n')}</Key><FileName>sow/t.sow</FileName>{self.more}</Topic></SOW>"
            "<TransactionLog><JournalDirectory>journal</JournalDirectory>"
            f"<Topic>{named}</Topic></TransactionLog></AMPSConfig>"
        )

    def run(self, *argv: str, stdin: bytes = b"", status: int = 0) -> bytes:
        self.now += 1
        out, err = io.BytesIO(), io.BytesIO()
        words = [*argv, "-c", str(self.root / "sowctl.xml"), "--now", f"{self.now}s"]
        found = main(words, environ={}, stdin=io.BytesIO(stdin), stdout=out, stderr=err)
        assert found == status, (found, err.getvalue().decode(), out.getvalue())
        return out.getvalue()

    def frames(self, *records: Record) -> bytes:
        """Messages in the framing that the type has by default."""
        payloads = [self.kind.encode(record) for record in records]
        return b"".join(payload + b"\n" for payload in payloads) if self.kind.lines else framed(*payloads)

    def publish(self, *records: Record, more: tuple[str, ...] = ()) -> None:
        self.run("publish", "t", *more, stdin=self.frames(*records))

    def rows(self, *argv: str) -> list[Any]:
        """Records in their JSON views, each reduced to the fields that the test wrote."""
        return [plain(self.kind, json.loads(line)) for line in self.run("query", "t", *argv).splitlines()]

    def raw(self, *argv: str) -> bytes:
        return self.run("query", "t", "-F", "raw", "--length-prefix", *argv)

    def digest(self) -> bytes:
        return self.run("hash", "t")


def plain(kind: Kind, shown: Any) -> dict[str, Any]:
    """The fields that were written, from a JSON view."""
    if kind.name == "xml":
        shown = shown["m"]
    elif kind.name == "local":
        shown = shown[0]
    elif kind.name == "global":
        shown = {**shown[0], **(shown[1] or {})}
    names = {tag: name for name, tag in TAGS.items()} if kind.name == "fix" else {}
    found = {names.get(name, name): value for name, value in shown.items()}
    return {name: found[name] for name in ("n", "a", "f") if name in found}


@pytest.fixture
def place(kind: Kind, tmp_path: Path) -> Place:
    made = Place(tmp_path / "one", kind)
    made.publish(*ROWS)
    return made


@EVERY
def test_queries_filter_and_order(place: Place, kind: Kind) -> None:
    assert place.rows("-o", kind.at("n")) == ROWS
    found = place.rows("-f", f"{kind.at('f')} > 1 AND {kind.at('a')} != 'two'", "-o", f"{kind.at('f')} DESC")
    assert found == [ROWS[2], ROWS[0]]
    assert place.rows("-f", f"{kind.at('a')} LIKE '^t'", "-o", kind.at("a"), "-n", "1") == [ROWS[2]]
    assert place.raw("-o", kind.at("n")) == framed(*map(kind.encode, ROWS))
    assert place.run("query", "t", "--count", "-f", f"{kind.at('n')} IS NOT NULL").split()[0] == b"4"


@EVERY
def test_records_are_got_replaced_and_deleted(place: Place, kind: Kind) -> None:
    (got,) = place.run("get", "t", "3", "--fields").splitlines()
    assert plain(kind, json.loads(got)) == ROWS[2]
    changed = {**ROWS[1], "a": "second"}
    place.publish(changed)
    assert place.rows("-o", kind.at("n")) == [ROWS[0], changed, *ROWS[2:]]
    place.run("delete", "t", "-f", f"{kind.at('a')} = 'second'", "--yes")
    place.run("delete", "t", "--data", "-", "--yes", stdin=place.frames(ROWS[0]))
    assert place.rows("-o", kind.at("n")) == ROWS[2:]


@EVERY
def test_deltas_are_merged_or_replace_and_are_journalled_merged(place: Place, kind: Kind) -> None:
    delta = {"n": 2, "f": 9.5} if kind.merges else {"n": 2, "a": "new", "f": 9.5}
    place.publish(delta, more=("--delta",))
    assert place.rows("-f", f"{kind.at('n')} = 2") == [{**ROWS[1], **delta}]
    place.publish({"n": 7, "a": "seven", "f": 0.0}, more=("--delta",))
    assert len(place.rows()) == 5
    entries = [json.loads(line) for line in place.run("journal", "dump").splitlines()]
    assert len(entries) == 6
    if kind.name == "json":
        assert entries[4]["data"] == {**ROWS[1], **delta}
    else:
        assert place.raw("-f", f"{kind.at('n')} = 2") == framed(b64decode(entries[4]["data_base64"]))


@EVERY
def test_a_rebuilt_store_is_the_live_one(place: Place, kind: Kind) -> None:
    place.publish({**ROWS[1], "a": "again"})
    place.publish({"n": 3, "a": "x", "f": 8.5}, more=("--delta",))
    place.run("delete", "t", "-f", f"{kind.at('n')} = 1", "--yes")
    live, digest = place.raw(), place.digest()
    assert place.run("snapshot", "t", "--at", f"{place.now}s", "-F", "ndjson") == place.run(
        "query", "t", "-F", "ndjson"
    )
    place.run("replay", "--verify")
    shutil.rmtree(place.root / "sow")
    place.run("replay")
    assert (place.raw(), place.digest()) == (live, digest)


@EVERY
def test_eval_reads_what_publish_reads(place: Place, kind: Kind) -> None:
    frames = place.frames(*ROWS)
    values = place.run("eval", f"{kind.at('n')} * 2", "--message-type", kind.name, stdin=frames)
    assert values.split() == [b"2", b"4", b"6", b"8"]
    kept = place.run("eval", "--filter", f"{kind.at('f')} > 2", "--message-type", kind.name, stdin=frames)
    assert kept == place.frames(*ROWS[1:3])


@EVERY
def test_envelopes_carry_payloads_keys_and_stamps(place: Place, kind: Kind, tmp_path: Path) -> None:
    place.publish({**ROWS[0], "a": "later"})
    envelopes = place.run("query", "t", "--meta")
    other = Place(tmp_path / "two", kind, now=place.now)
    other.run("publish", "--framing", "envelope", stdin=envelopes)
    assert other.raw() == place.raw()
    first, again = (
        [json.loads(line) for line in one.run("query", "t", "--meta", "-o", kind.at("n")).splitlines()]
        for one in (place, other)
    )
    assert len(first) == 4
    assert len({entry["timestamp"] for entry in first}) == 2
    assert {entry["message_type"] for entry in first} == {kind.name}
    for one, two in zip(first, again, strict=True):
        one, two = ({n: entry[n] for n in entry if n not in ("txid", "bookmark")} for entry in (one, two))
        assert one == two


def _state(place: Place) -> list[dict[str, Any]]:
    """Records with payload, key and stamps, in the order of their numbers."""
    found = [json.loads(line) for line in place.run("query", "t", "--meta", "-o", place.kind.at("n")).splitlines()]
    return [{name: entry[name] for name in entry if name not in ("txid", "bookmark")} for entry in found]


def _change(place: Place) -> None:
    """Updates not in the order of keys, some with a lifetime, a client, or a delta."""
    for number in (3, 0, 2, 1):
        place.publish({**ROWS[number], "a": f"u{number}"}, more=("--client", f"c{number % 2}", "--expiration", "1d"))
    place.publish({**ROWS[2], "f": 7.5}, more=("--delta",))
    place.publish(ROWS[0], more=("--expiration", "0"))


@EVERY
@pytest.mark.parametrize("how", ["x.ndjson", "x.ndjson.gz", "x.ndjson.zst", "snapshot", "dump"])
def test_what_is_written_with_metadata_is_published_again(place: Place, kind: Kind, how: str, tmp_path: Path) -> None:
    _change(place)
    if how == "dump":
        place.run("delete", "t", "-f", f"{kind.at('n')} = 2", "--yes")
        place.publish({"n": 9, "a": "late", "f": 0.5}, more=("--client", "c1"))
    file = tmp_path / (how if how.startswith("x") else "x.ndjson")
    if how == "dump":
        file.write_bytes(place.run("journal", "dump"))
    elif how == "snapshot":
        file.write_bytes(place.run("snapshot", "t", "--at", f"{place.now}s", "--meta", "-F", "ndjson"))
    else:
        place.run("export", "t", str(file), "--meta")
    other = Place(tmp_path / "two", kind, now=place.now)
    other.run("publish", "--framing", "envelope", str(file))
    assert _state(other) == _state(place)
    assert len(_state(place)) == 4
    if how == "dump":
        first, again = (
            [json.loads(line) for line in one.run("journal", "dump").splitlines()] for one in (place, other)
        )
        # The same entries under the same txids, with their publishers; only the name of the instance differs.
        strangers = [entry["txid"] for entry in first if "client" not in entry]
        assert [e for e in first if e["txid"] not in strangers] == [e for e in again if e["txid"] not in strangers]
        assert [{**e, "bookmark": None} for e in first] == [{**e, "bookmark": None} for e in again]


@EVERY
def test_a_bad_message_is_refused_and_the_others_are_kept(place: Place, kind: Kind) -> None:
    if kind.name in ("fix", "nvfix", "semi"):
        return
    bad = b"\xc1\xff"
    data = place.frames(ROWS[0]) + (bad + b"\n" if kind.lines else framed(bad)) + place.frames({**ROWS[1], "a": "ok"})
    place.run("publish", "t", "--on-error", "skip", stdin=data, status=3)
    assert place.rows("-f", f"{kind.at('n')} = 2") == [{**ROWS[1], "a": "ok"}]
    assert len(place.rows()) == 4


@EVERY
def test_the_configuration_breaks_no_rule(place: Place, kind: Kind) -> None:
    place.run("validate", str(place.root / "sowctl.xml"))


@EVERY
def test_enrichment_writes_what_the_type_can_write(kind: Kind, tmp_path: Path) -> None:
    fields = (
        f"CONCAT({kind.at('a')}, '!') AS {kind.at('a')}",
        f"{kind.at('f')} OF PREVIOUS + {kind.at('f')} AS {kind.at('f')} HINT OPTIONAL",
    )
    more = f"<Enrichment>{''.join(f'<Field>{text}</Field>' for text in fields)}</Enrichment>"
    place = Place(tmp_path / "one", kind, more=more)
    if kind.name in ("global", "orders2", "orders3", "fixed"):
        place.run("publish", "t", stdin=place.frames(ROWS[0]), status=4)
        return
    place.publish(ROWS[0], ROWS[1])
    assert place.rows("-o", kind.at("n")) == [{"n": 1, "a": "one!"}, {"n": 2, "a": "two!"}]
    place.publish({**ROWS[0], "a": "new"})
    assert place.rows("-f", f"{kind.at('n')} = 1") == [{"n": 1, "a": "new!"}]
    place.publish({"n": 1, "f": 2.5}, more=("--delta",))
    live = place.raw()
    shutil.rmtree(place.root / "sow")
    place.run("replay")
    assert place.raw() == live

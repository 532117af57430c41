"""Every message type, built in and defined, with the commands; topics of one name and two types."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from sowctl.messages.definition import TypeDefinition
from sowctl.messages.types import list_type_names
from tests.cli.conftest import Cli
from tests.support.messagetypes import SAMPLES, Sample
from tests.support.protosamples import Order, order_set

FIX = b"55=IBM\x0144=90.50\x01448=A\x01448=B\x01"
JSON = b'{"id":"IBM","p":1}'
NOW = {"SOWCTL_NOW": "2026-01-05T08:00:00Z"}


def type_xml(definition: TypeDefinition, known: set[str]) -> str:
    """The MessageType elements of a definition, preceded by those of its parts."""
    before = "".join(type_xml(part, known) for part in definition.parts if part.name not in known)
    known.add(definition.name)
    rows = [f"<Name>{definition.name}</Name><Module>{definition.kind}</Module>"]
    if definition.kind in ("fix", "nvfix"):
        rows.append(f"<FieldSeparator>{definition.field_separator[0]}</FieldSeparator>")
    if not definition.first_wins:
        rows.append("<EarlyTerminationOptimization>false</EarlyTerminationOptimization>")
    rows += [f"<MessageType>{part.name}</MessageType>" for part in definition.parts]
    rows += [f"<Field>{escape(field)}</Field>" for field in definition.fields]
    if definition.proto_type:
        rows += [f"<Type>{definition.proto_type}</Type>", f"<ProtoFile>{definition.proto_file}</ProtoFile>"]
        rows += [f"<ProtoPath>{path}</ProtoPath>" for path in definition.proto_paths or (".",)]
    return before + f"<MessageType>{''.join(rows)}</MessageType>"


def config(*topics: tuple[str, str, str | None], definition: TypeDefinition | None = None) -> str:
    """A configuration of topics (name, type, key), all of them journalled."""
    types = "" if definition is None else type_xml(definition, set(list_type_names()))
    entries = "".join(
        f"<Topic><Name>{name}</Name><MessageType>{kind}</MessageType>"
        + (f"<Key>{key}</Key>" if key is not None else "")
        + "<FileName>sow/%n.sow</FileName></Topic>"
        for name, kind, key in topics
    )
    logged = "".join(f"<Topic><Name>{n}</Name><MessageType>{kind}</MessageType></Topic>" for n, kind, _ in topics)
    return (
        f"<AMPSConfig><Name>test</Name><MessageTypes>{types}</MessageTypes><SOW>{entries}</SOW>"
        f"<TransactionLog><JournalDirectory>journal</JournalDirectory>{logged}</TransactionLog></AMPSConfig>"
    )


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_messages_of_every_type_go_through_every_verb(cli: Cli, sample: Sample, tmp_path: Path) -> None:
    kind = sample.type()
    key = sample.path("a") if kind.filterable else None
    definition = None if isinstance(sample.kind, str) else sample.kind
    (tmp_path / "sowctl.xml").write_text(config(("t", kind.name, key), definition=definition))

    def run(*argv: str, stdin: bytes = b"", status: int = 0) -> str:
        done = cli(*argv, stdin=stdin, environ=NOW)
        assert done.status == status, (argv, done.err)
        return done.out

    chosen = [] if key is not None else ["--sow-key", "AAA"]
    run("publish", "t", "--framing", "length", *chosen, stdin=framed(sample.message))
    line = kind.view(sample.message).decode()
    assert run("query", "t").splitlines() == [line]
    assert [json.dumps(row) for row in json.loads(run("query", "t", "--format", "json"))] == [
        json.dumps(json.loads(line))
    ]
    assert run("get", "t", "x" if key is not None else "AAA").splitlines() == [line]
    digest = run("hash", "t")
    if key is not None:
        assert run("query", "t", f"{sample.path('n')} = 5 AND {key} = 'x'", "--count") == "1\n"
        assert run("query", "t", f"{sample.path('n')} = 6", "--count") == "0\n"
        columns = "--columns", f"{sample.path('n')},{key}"
        for verb in (("query", "t"), ("journal", "dump")):
            assert run(*verb, "--format", "csv", *columns).splitlines()[1:] == ["5,x"]
        assert (
            run(
                "eval",
                "--message-type",
                kind.name,
                "--framing",
                "length",
                sample.path("n"),
                stdin=framed(sample.message),
            )
            == "5\n"
        )
    if kind.selectable:
        left = run("query", "t", "--select", f"-{sample.path('f')}")
        assert "2.5" not in left
        assert run("query", "t", "--select", f"[-{sample.path('f')}]") == left
    if definition is not None:
        (tmp_path / "sowctl.xml").rename(tmp_path / "moved.xml")
        done = cli("query", f"sow/t.{kind.name}.sow", environ=NOW)
        assert done.status == 4
        assert f"message type '{kind.name}'" in done.err and "MessageTypes" in done.err and "--config" in done.err
        assert run("query", f"sow/t.{kind.name}.sow", "-c", "moved.xml").splitlines() == [line]
        (tmp_path / "moved.xml").rename(tmp_path / "sowctl.xml")
    assert f'"message_type":"{kind.name}"' in run("journal", "dump")
    (tmp_path / "sow" / f"t.{kind.name}.sow").unlink()
    run("replay", "t")
    assert run("hash", "t") == digest
    run("check")
    envelopes = run("query", "t", "--meta")
    run("delete", "t", "--filter", "1=1", "--yes")
    assert run("query", "t") == ""
    other = tmp_path / "other"
    other.mkdir()
    (other / "sowctl.xml").write_text((tmp_path / "sowctl.xml").read_text())
    config_of_other = str(other / "sowctl.xml")
    run("-c", config_of_other, "publish", "--framing", "envelope", stdin=envelopes.encode())
    restored = run("-c", config_of_other, "query", "t", "--meta")
    first, second = json.loads(envelopes), json.loads(restored)
    assert {**first, "txid": 0} == {**second, "txid": 0}


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.type().mergeable and not s.skips], ids=str)
def test_deltas_of_every_type_are_merged(cli: Cli, sample: Sample, tmp_path: Path) -> None:
    kind = sample.type()
    definition = None if isinstance(sample.kind, str) else sample.kind
    (tmp_path / "sowctl.xml").write_text(config(("t", kind.name, None), definition=definition))
    for extra, message in (((), sample.message), (("--delta",), sample.delta)):
        done = cli("publish", "t", "--framing", "length", "--sow-key", "AAA", *extra, stdin=framed(message))
        assert done.status == 0, done.err
    assert cli("query", "t").out.splitlines() == [kind.view(kind.merge_delta(sample.message, sample.delta)).decode()]


@pytest.mark.parametrize("sample", [s for s in SAMPLES if not s.type().mergeable and not s.skips], ids=str)
def test_that_deltas_of_a_type_replace_is_said(cli: Cli, sample: Sample, tmp_path: Path) -> None:
    kind = sample.type()
    definition = None if isinstance(sample.kind, str) else sample.kind
    (tmp_path / "sowctl.xml").write_text(config(("t", kind.name, None), definition=definition))
    said = f"{kind.name} messages cannot be merged"
    for extra, message, expected in (
        (("--delta",), sample.message, False),
        (("--delta",), sample.delta, True),
        ((), sample.message, False),
    ):
        done = cli("publish", "t", "--framing", "length", "--sow-key", "AAA", *extra, stdin=framed(message))
        assert done.status == 0, done.err
        assert (said in done.err) is expected


@pytest.fixture
def two(cli: Cli, tmp_path: Path) -> Callable[..., str]:
    """Topics o of the types json and fix, with a message each; runs a command that must succeed."""
    (tmp_path / "sowctl.xml").write_text(config(("o", "json", "/id"), ("o", "fix", "/55")))

    def run(*argv: str, stdin: bytes = b"") -> str:
        done = cli(*argv, stdin=stdin, environ=NOW)
        assert done.status == 0, (argv, done.err)
        return done.out

    run("publish", "[json].[o]", stdin=JSON + b"\n")
    run("publish", "o", "--message-type", "fix", stdin=FIX + b"\n")
    return run


VERBS: list[tuple[str, ...]] = [
    ("query", "{}"),
    ("get", "{}", "IBM"),
    ("hash", "{}"),
    ("snapshot", "{}", "--at", "NOW"),
    ("info", "{}", "--format", "ndjson"),
    ("check", "{}"),
    ("expire", "{}"),
    ("replay", "{}", "--verify"),
    ("delete", "{}", "--sow-key", "1", "--yes"),
    ("delete", "{}", "--data", "-", "--yes"),
    ("publish", "{}"),
]


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_name_with_two_types_needs_the_type_in_every_verb(
    cli: Cli, two: Callable[..., str], words: tuple[str, ...]
) -> None:
    done = cli(*[word.format("o") for word in words], environ=NOW, stdin=FIX + b"\n")
    if words[0] not in ("check", "info", "expire", "replay") or done.status:
        assert done.status == 2
        assert "[json].[o], [fix].[o]" in done.err
    two(*[word.format("[fix].[o]") for word in words], stdin=FIX + b"\n")
    two(*[word.format("[json].[o]") for word in words], stdin=JSON + b"\n")


def test_the_type_chooses_the_topic(two: Callable[..., str]) -> None:
    assert two("query", "[json].[o]") == JSON.decode() + "\n"
    shown = '{"55":"IBM","44":"90.50","448":["A","B"]}\n'
    assert two("query", "[fix].[o]") == two("query", "o", "--message-type", "fix") == shown
    assert two("query", "[fix].[^o]") == shown
    assert two("hash", "[json].[o]") != two("hash", "[fix].[o]")
    dumped = two("journal", "dump", "--topic", "[fix].[o]").splitlines()
    assert [json.loads(line)["message_type"] for line in dumped] == ["fix"]
    assert len(two("journal", "dump", "--topic", "o").splitlines()) == 2


def test_fix_tags_have_names_where_asked(two: Callable[..., str]) -> None:
    shown = '{"Symbol":"IBM","Price":"90.50","PartyID":["A","B"]}\n'
    for verb in (("query",), ("get", "IBM"), ("snapshot", "--at", "NOW")):
        assert two(verb[0], "[fix].[o]", *verb[1:], "--fix-names") == shown
    assert two("query", "[json].[o]", "--fix-names") == JSON.decode() + "\n"
    assert two("query", "[fix].[o]", "--fix-names", "--format", "csv", "--columns", "/Symbol,/Price").endswith(
        "IBM,90.50\n"
    )
    assert "55=IBM" in two("query", "[fix].[o]", "--fix-names", "--format", "raw")


@pytest.mark.parametrize(
    ("kind", "text"), [("json", b'{"id":1}\n{"id":2}'), ("fix", b"1=1\x01\n1=2\x01\n"), ("binary", b"a\nb\n")]
)
def test_messages_of_text_are_lines(cli: Cli, tmp_path: Path, kind: str, text: bytes) -> None:
    done = cli("eval", "--message-type", kind, "LENGTH('x')", stdin=text)
    assert (done.status, done.out) == (0, "1\n1\n")


def test_messages_of_any_bytes_have_lengths(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sowctl.xml").write_text(config(("t", "bflat", "/id")))
    messages = b"".join(framed(b"\x1aid" + bytes([number])) for number in (5, 10))
    done = cli("publish", "t", "--tee", stdin=messages)
    assert (done.status, done.out.encode()) == (0, messages)
    assert cli("eval", "--message-type", "bflat", "/id", stdin=messages).out == "5\n10\n"
    matching = cli("eval", "--message-type", "bflat", "--filter", "/id = 10", stdin=messages).out
    assert matching.encode() == framed(b"\x1aid\x0a")
    assert "2 deleted" in cli("delete", "t", "--data", "-", "--yes", stdin=messages).err


def test_eval_knows_the_types_of_a_configuration(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "types.xml").write_text(config(definition=TypeDefinition("semi", "nvfix", field_separator=b";")))
    assert cli("-c", "types.xml", "eval", "--message-type", "semi", "/b", stdin=b"a=1;b=2\n").out == "2\n"
    unknown = cli("-c", "types.xml", "eval", "--message-type", "sem", "/b", stdin=b"a=1;b=2\n")
    assert unknown.status == 2
    assert "SOW-CLI-026" in unknown.err
    (tmp_path / "fix.xml").write_text(config(definition=TypeDefinition("fix", "fix", field_separator=b"|")))
    assert cli("-c", "fix.xml", "eval", "--message-type", "fix", "/2", stdin=b"1=x|2=y\n").out == '"y"\n'


def test_a_separator_that_is_no_byte_is_refused_with_its_place(cli: Cli, tmp_path: Path) -> None:
    text = config(("t", "mine", "/a"), definition=TypeDefinition("mine", "nvfix", field_separator=b";"))
    (tmp_path / "sowctl.xml").write_text(text.replace("<FieldSeparator>59<", "<FieldSeparator>300<"))
    for words in (("query", "t"), ("validate", "sowctl.xml")):
        done = cli(*words)
        assert done.status in (4, 1)
        assert "'300'" in done.err + done.out


def test_publish_and_validate_ask_for_the_same_elements(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "order.desc").write_bytes(order_set().SerializeToString())
    parts = {
        "Type": "<Type>trade.Order</Type>",
        "ProtoFile": "<ProtoFile>order.desc</ProtoFile>",
        "ProtoPath": "<ProtoPath>.</ProtoPath>",
    }
    for missing in (None, *parts):
        rows = "".join(text for name, text in parts.items() if name != missing)
        kind = f"<MessageType><Name>o</Name><Module>protobuf</Module>{rows}</MessageType>"
        topic = "<Topic><Name>t</Name><MessageType>o</MessageType><Key>/a</Key><FileName>t.sow</FileName></Topic>"
        text = f"<AMPSConfig><Name>i</Name><MessageTypes>{kind}</MessageTypes><SOW>{topic}</SOW></AMPSConfig>"
        (tmp_path / "c.xml").write_text(text)
        payload = framed(Order(a="x").SerializeToString())
        validated = cli("validate", "c.xml")
        published = cli("publish", "t", "--config", "c.xml", "--framing", "length", stdin=payload)
        assert (validated.status, published.status) == ((0, 0) if missing is None else (4, 4)), (
            missing,
            validated,
            published,
        )
        assert missing is None or f"needs a {missing}" in published.err


def test_repeated_fields_and_parts_are_columns_of_sql_and_of_exports(cli: Cli, tmp_path: Path) -> None:
    parts = (TypeDefinition("json", "json"), TypeDefinition("nvfix", "nvfix"))
    pair = TypeDefinition("pair", "composite-local", parts=parts)
    (tmp_path / "sowctl.xml").write_text(config(("t", "pair", "/0/id"), definition=pair))
    messages = [
        b"".join(len(part).to_bytes(4) + part for part in (b'{"id":%d}' % count, b"l=7\x01" * count))
        for count in range(3)
    ]
    cli("publish", "t", stdin=b"".join(map(framed, messages)), environ=NOW)
    statement = 'SELECT "0".id AS id, "1".l AS l FROM {} ORDER BY id'
    wanted = [{"id": 0, "l": None}, {"id": 1, "l": [7]}, {"id": 2, "l": [7, 7]}]
    for table in ("t", '"t@history"'):
        done = cli("sql", statement.format(table), "--format", "ndjson")
        assert [json.loads(line) for line in done.out.splitlines()] == wanted, done.err
    done = cli("schema", "t", "--ddl")
    assert done.out == "`0`: STRUCT<`id`: BIGINT>, `1`: STRUCT<`l`: ARRAY<BIGINT>>\n"

"""Hostile XML: refused within bounds of time and memory, and nothing is fetched or disclosed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]

CHILD = """
import resource, sys
limit = 400 << 20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
from sowctl.config.validate import validate_config
try:
    findings = validate_config(sys.argv[1], environment={})
except Exception as error:
    print(type(error).__name__, getattr(error, "code", ""), error)
else:
    print(*(f"{f.id} {f.place.line} {f.message}" for f in findings), sep="\\n")
"""


def verdict(path: Path) -> str:
    """The output of validate, in a process with at most 400 MiB and ten seconds."""
    command = [sys.executable, "-c", CHILD, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def entities(count: int) -> str:
    lines = ['<!ENTITY a0 "lol">']
    lines += [f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, count)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("head", "rule"),
    [
        ('<!DOCTYPE AMPSConfig SYSTEM "http://127.0.0.1:1/x.dtd">', "X002"),
        ('<!DOCTYPE AMPSConfig PUBLIC "-//X" "http://127.0.0.1:1/x.dtd">', "X002"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>', "X002"),
        ("<!DOCTYPE a [<!ENTITY x SYSTEM 'SECRET_FILE'>]>", "X002"),
        ('<!DOCTYPE a [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>', "X002"),
        (f"<!DOCTYPE a [{entities(10)}]>", "X003"),
        ('<!DOCTYPE a [<!ENTITY x "&x;">]>', "X003"),
        ('<!DOCTYPE a [<!ENTITY x "one">]>', "X004"),
        ("<!DOCTYPE a>", "X004"),
    ],
)
def test_document_types_are_refused(write: Write, tmp_path: Path, head: str, rule: str) -> None:
    (tmp_path / "secret.txt").write_text("TOPSECRET")
    head = head.replace("SECRET_FILE", str(tmp_path / "secret.txt"))
    said = verdict(write(f"<?xml version='1.0'?>\n{head}\n<AMPSConfig><Name>&x;&a9;</Name></AMPSConfig>"))
    assert said.startswith(rule)
    assert "TOPSECRET" not in said
    assert "root:" not in said


def test_quadratic_blow_up(write: Write) -> None:
    text = f'<!DOCTYPE a [<!ENTITY x "{"x" * 50_000}">]><AMPSConfig>{"&x;" * 50_000}</AMPSConfig>'
    assert verdict(write(text)).startswith("X003")


@pytest.mark.parametrize(("count", "rule"), [(900, "X004"), (1100, "X003")])
def test_a_chain_of_many_entities(write: Write, count: int, rule: str) -> None:
    forward = "".join(f'<!ENTITY a{n} "&a{n + 1};">' for n in range(count))
    backward = "".join(f'<!ENTITY a{n + 1} "&a{n};">' for n in range(count))
    for chain in (forward, backward):
        assert verdict(write(f"<!DOCTYPE a [{chain}]><AMPSConfig/>")).startswith(("X003", rule))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<a>" * 100_000, "SOW-CFG-021"),
        ("<AMPSConfig>" + "<a>" * 70 + "</a>" * 70 + "</AMPSConfig>", "SOW-CFG-021"),
        ("<AMPSConfig>" + "<a/>" * 100_001 + "</AMPSConfig>", "SOW-CFG-022"),
        ("<AMPSConfig " + " ".join(f"a{n}='x'" for n in range(200_000)) + "/>", "SOW-CFG-022"),
        ("<AMPSConfig><Name>" + "x" * 11_000_000 + "</Name></AMPSConfig>", "X001"),
        ("<AMPSConfig>" + "x" * 50_000_000 + "</AMPSConfig>", "SOW-CFG-020"),
        ("<!--" * 2_000_000, "X001"),
        ("<a " * 2_000_000, "X001"),
        ("<a x='" * 1_000_000, "X001"),
        ("<AMPSConfig>" + "<![CDATA[" * 1_000_000, "X001"),
        ("<" * 5_000_000, "X001"),
    ],
    ids=["open", "depth", "nodes", "attributes", "text", "file", "comments", "tags", "quotes", "cdata", "angles"],
)
def test_limits(write: Write, text: str, said: str) -> None:
    assert verdict(write(text)).startswith(said)


@pytest.mark.parametrize("remark", ["<!---->", "<?a?>", "<![CDATA[]]>"])
def test_a_file_of_remarks_takes_no_time(write: Write, remark: str) -> None:
    path = write("<AMPSConfig>" + remark * (16_000_000 // len(remark)) + "</AMPSConfig>")
    before = os.times()
    assert verdict(path).startswith("SOW-CFG-022")
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < 2


VIEW = (
    "<View><Name>v{0}</Name><MessageType>json</MessageType><UnderlyingTopic>v{1}</UnderlyingTopic>"
    "<Projection><Field>/a</Field></Projection><Grouping><Field>/a</Field></Grouping></View>"
)
QUEUE = "<Queue><Name>q.{0}</Name><MessageType>json</MessageType><UnderlyingTopic>u.{0}.x</UnderlyingTopic></Queue>"
RECORDED = "<Topic><Name>t.{0}.x</Name><MessageType>json</MessageType></Topic>"
LOG = "<TransactionLog><JournalDirectory>j</JournalDirectory>{}</TransactionLog>"
TYPED = "<Name>v</Name><MessageType>json</MessageType><UnderlyingTopic>a</UnderlyingTopic>"


def many(count: int, text: str) -> str:
    return "".join(text.format(number, number + 1) for number in range(count))


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ("<Queux/>" * 99_000, "S002"),
        ("<SOW>" + "<Topic><Name>a</Name></Topic>" * 30_000 + "</SOW>", "S021"),
        (f"<SOW>{many(5_000, QUEUE)}</SOW>{LOG.format(many(5_000, RECORDED))}", "F011"),
        (f"<SOW>{many(5_000, VIEW)}</SOW>", "R005"),
        (f"<SOW>{many(5_000, VIEW)}{VIEW.format(5_000, 0)}</SOW>", "R027"),
        (f"<SOW><View>{TYPED}<Projection>{'<Field>SUM(/a + </Field>' * 9_000}</Projection></View></SOW>", "S037"),
        (f"<SOW><View>{TYPED}<Filter>{'(' * 2_000_000}</Filter></View></SOW>", "S037"),
        (f"<SOW><View>{TYPED}<Filter>{'(a+)+' * 20_000}</Filter></View></SOW>", "S037"),
        ("<Description>" + "&lt;" * 2_000_000 + "</Description>", ""),
        ("<SOW><Topic><SlabSize>" + "9" * 400 + ".5</SlabSize></Topic></SOW>", "S020"),
    ],
    ids=["unknown", "invalid", "queues", "views", "circle", "fields", "open", "groups", "references", "number"],
)
def test_as_much_wrong_as_a_file_can_hold(write: Write, inner: str, said: str) -> None:
    """On one line: no error may take time in proportion to the length of the line."""
    assert verdict(write(f"<AMPSConfig><Name>x</Name>{inner}</AMPSConfig>")).startswith(said)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "X001"),
        (b"\x00" * 1000, "X001"),
        ("<AMPSConfig/>".encode("utf-16-le"), "X001"),
        ("<AMPSConfig/>".encode("utf-32"), "X0"),
        (b"<?xml version='1.0' encoding='utf-7'?><AMPSConfig/>", "X014"),
        (b"<?xml version='1.0' encoding='idna'?><AMPSConfig/>", "X014"),
        (b"<?xml version='1.0' encoding='zlib_codec'?><AMPSConfig/>", "X014"),
        (b"<?xml version='1.0' encoding='unknown'?><AMPSConfig/>", "X014"),
        (b"<AMPSConfig><Name>\xed\xa0\x80</Name></AMPSConfig>", "X014"),
        (b"<AMPSConfig><Name>\xc0\xaf</Name></AMPSConfig>", "X014"),
        (b"<AMPSConfig><Name>&#0;</Name></AMPSConfig>", "X001"),
        (b"<AMPSConfig><Name>&#xD800;</Name></AMPSConfig>", "X001"),
        (b"<AMPSConfig><Name>\x1b[2J</Name></AMPSConfig>", "X001"),
        (b"\xff\xfe<\x00a\x00", "X001"),
    ],
)
def test_bytes_that_are_no_text(write: Write, data: bytes, said: str) -> None:
    assert verdict(write(data)).startswith(said)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("${LONG}" * 100_000, "X008"),
        ("${" * 1_000_000, "none"),
        ("${LONG" * 500_000, "none"),
        ("${ONE}", "none"),
    ],
    ids=["long", "open", "unclosed", "not again"],
)
def test_variables_that_grow(write: Write, text: str, rule: str) -> None:
    """Neither the inserted values nor the search for their names exceeds the limits of the file."""
    path = write(f"<AMPSConfig><Name>x</Name><Description>{text}</Description></AMPSConfig>")
    child = CHILD.replace("environment={}", "environment={'LONG': 'b' * 100_000, 'ONE': '${TWO}', 'TWO': '${ONE}'}")
    command = [sys.executable, "-c", child, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert (done.stdout.strip() or "none").startswith(rule)


def test_a_message_does_not_repeat_a_huge_text(instance: Write) -> None:
    said = verdict(instance(log=f"<Topic><Name>{'(' * 100_000}</Name><MessageType>json</MessageType></Topic>"))
    assert said.startswith("S063") and len(said) < 1_000


def test_nothing_outside_is_opened(write: Write, tmp_path: Path) -> None:
    """Not by an absolute name, by .., by a link, or from a device; not even the existence of a file is revealed."""
    secret = tmp_path / "outside" / "secret.xml"
    secret.parent.mkdir()
    secret.write_text("<Name>TOPSECRET</Name>")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link.xml").symlink_to(secret)
    (inside / "folder").symlink_to(secret.parent)
    os.mkfifo(inside / "pipe.xml")
    names = (str(secret), "../outside/secret.xml", "link.xml", "folder/secret.xml", "../outside/absent.xml")
    for name in (
        *names,
        "/dev/zero",
        "/proc/self/environ",
        "pipe.xml",
        ".",
        "",
        "a" * 5000,
        "\ud800",
        "file:///etc/passwd",
    ):
        path = write(
            f"<AMPSConfig><Include>{name}</Include></AMPSConfig>".encode("utf-8", "replace"), "inside/config.xml"
        )
        said = verdict(path)
        assert said.startswith("X006"), (name, said)
        assert "TOPSECRET" not in said


def test_includes_that_include_each_other(write: Write) -> None:
    write("<A><Include>b.xml</Include></A>", "a.xml")
    write("<B><Include>./c/../a.xml</Include></B>", "b.xml")
    assert verdict(write("<AMPSConfig><Include>a.xml</Include></AMPSConfig>")).startswith(
        "X007 1 Include cycle: a.xml -> b.xml -> a.xml"
    )


def test_an_endless_file_is_not_read_to_its_end() -> None:
    assert verdict(Path("/dev/zero")).startswith("SOW-CFG-020")


def test_a_file_that_includes_itself_by_a_thousand_ways(write: Write) -> None:
    for number in range(9):
        write("<A>" + f"<Include>{number + 1}.xml</Include>" * 10 + "</A>", f"{number}.xml")
    write("<A/>", "9.xml")
    assert verdict(write("<AMPSConfig><Include>0.xml</Include></AMPSConfig>")).startswith("SOW-CFG-02")


def test_xinclude_is_inert(write: Write, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("TOPSECRET")
    text = (
        '<AMPSConfig xmlns:xi="http://www.w3.org/2001/XInclude"><Name>x</Name>'
        f'<xi:include href="{tmp_path}/secret.txt" parse="text"/></AMPSConfig>'
    )
    said = verdict(write(text))
    assert said.startswith("S002 1 unknown element xi:include")
    assert "TOPSECRET" not in said


def test_a_pattern_that_runs_away_is_an_error(instance: Write) -> None:
    topic = "<Topic><Name>(a+)+$</Name><MessageType>json</MessageType></Topic>"
    name = "a" * 60 + "b"
    sow = f"<Topic><Name>{name}</Name><MessageType>json</MessageType><FileName>x</FileName></Topic>"
    from sowctl.config.instance import load_instance
    from sowctl.errors import ConfigError

    path = instance(sow, log=topic)
    with pytest.raises(ConfigError, match="match limit") as caught:
        load_instance(path, environment={})
    assert caught.value.code == "SOW-CFG-163"

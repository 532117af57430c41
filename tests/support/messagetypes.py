"""One sample message per message type, with the same fields, for the tests that all types pass.

The message has ``a`` = "x" (a String), ``n`` = 5, ``f`` = 2.5, ``e`` = NULL and ``l`` = the list 1, 2; ``delta`` has
``n`` = 6, ``z`` = 1 and ``a`` = NULL. A type adds a row here: the bytes are written by hand or by another library, and
never by the type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path as File
from tempfile import TemporaryDirectory
from typing import NamedTuple

import bson
import msgpack

from sowctl.messages.base import MAX_MESSAGE_BYTES, MessageType
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.types import get_type
from sowctl.values.paths import Path, parse_path
from tests.support.protosamples import ORDER2, ORDER3, Order


def _same(name: str) -> str:
    return f"/{name}"


class Sample(NamedTuple):
    """A type and its messages. ``path`` builds the path of a field; ``bad`` are payloads that cannot be read."""

    kind: str | TypeDefinition
    message: bytes
    delta: bytes
    empty: bytes
    bad: tuple[bytes, ...]
    path: Callable[[str], str] = _same
    typed: bool = True
    """Whether values have kinds of their own, so that numbers have no original text."""
    skips: bool = False
    """Whether unreadable parts of a message are skipped, so that only writing into it refuses the message."""

    def __str__(self) -> str:
        return self.kind if isinstance(self.kind, str) else f"{self.kind.kind}-as-{self.kind.name}"

    def type(self, max_message: int = MAX_MESSAGE_BYTES) -> MessageType:
        """The type itself."""
        return get_type(self.kind, max_message=max_message)

    def at(self, name: str) -> Path:
        """The path of a field."""
        return parse_path(self.path(name))


TREE = {"a": "x", "n": 5, "f": 2.5, "e": None, "l": [1, 2]}
DELTA = {"n": 6, "z": 1, "a": None}
_TAGS = {name: str(number) for number, name in enumerate("anfelzqk", start=1)}


def _bflat_double(value: float) -> bytes:
    return b"\x39f" + struct.pack("<d", value)


def _parts(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4) + part for part in parts)


_TWO = (TypeDefinition("json", "json"), TypeDefinition("binary", "binary"))
_MIXED = (TypeDefinition("json", "json"), TypeDefinition("semi", "nvfix", field_separator=b";"))
_LAYOUT = ("/a = 3S", "/n = B", "/pad = 2x", "/f = >d", "/e = 1S", "/l = <2h")


def _packed(a: bytes, n: int, f: float, first: int, second: int) -> bytes:
    return struct.pack("<3sB2x", a, n) + struct.pack(">d", f) + b"\0" + struct.pack("<2h", first, second)


_FOLDER = TemporaryDirectory(prefix="sowctl-schemas-")


def _schema(name: str, text: str) -> str:
    """Write a schema to a file that is removed when the tests end."""
    path = File(_FOLDER.name) / f"{name}.proto"
    path.write_text(text)
    return str(path)


SAMPLES = [
    Sample(
        "json",
        b'{"a":"x", "n":5,"f":2.5,"e":null,"l":[1,2]}',
        b'{"n":6,"z":1,"a":null}',
        b"{}",
        (b"", b"{", b'{"a":1}x', b'{"a":"\xff"}', b"[" * 300),
        typed=False,
    ),
    Sample(
        TypeDefinition("last", "json", first_wins=False),
        b'{"a":"no","a":"x", "n":5,"f":2.5,"e":null,"l":[1,2]}',
        b'{"n":7,"n":6,"z":1,"a":null}',
        b"{}",
        (b"", b"{", b'{"a":1}x', b'{"a":"\xff"}', b"[" * 300),
        typed=False,
    ),
    Sample(
        "fix",
        b"1=x\x012=5\x013=2.5\x014=\x015=1\x015=2\x01",
        b"2=6\x016=1\x011=\x01",
        b"",
        (),
        path=lambda name: f"/{_TAGS.get(name, '99')}",
        typed=False,
    ),
    Sample("nvfix", b"a=x\x01n=5\x01f=2.5\x01e=\x01l=1\x01l=2\x01", b"n=6\x01z=1\x01a=\x01", b"", (), typed=False),
    Sample(
        TypeDefinition("semicolons", "nvfix", field_separator=b";"),
        b"a=x;n=5;f=2.5;e=;l=1;l=2",
        b"n=6;z=1;a=",
        b"",
        (),
        typed=False,
    ),
    Sample(
        "bflat",
        b"\x09a\x01x" + b"\x19n\x05" + _bflat_double(2.5) + b"\x01e" + b"\x99l\x02\x01\x02",
        b"\x19n\x06\x19z\x01\x01a",
        b"",
        (b"\x09a\x05x", b"\x50", b"\x1a", b"\x00\x80", b"\x81a\x80\x80\x80\x80\x10", b"\x89a\x02\x01x", b"\x49a\x80"),
    ),
    Sample("bson", bson.encode(TREE), bson.encode(DELTA), bson.encode({}), (b"", b"\x05\0\0\0", b"\x06\0\0\0\0\0")),
    Sample("msgpack", msgpack.packb(TREE), msgpack.packb(DELTA), msgpack.packb({}), (b"", b"\x81\xa1a", b"\xc1")),
    Sample(
        "xml",
        b"<m><a>x</a><n>5</n><f>2.5</f><e/><l>1</l><l>2</l></m>",
        b"<m><n>6</n><z>1</z><a/></m>",
        b"<m/>",
        (b"", b"<m>", b"<m></n>", b"<m/>x", b"<m>&x;</m>", b"<!DOCTYPE m [<!ENTITY a 'b'>]><m>&a;</m>", b"<m>" * 70),
        path=lambda name: f"/m/{name}",
        typed=False,
    ),
    Sample("binary", b"\x00\xff\n", b"new", b"", ()),
    Sample(
        TypeDefinition("pair", "composite-local", parts=_TWO),
        _parts(b'{"a":"x", "n":5,"f":2.5,"e":null,"l":[1,2]}', b"\x00\xff"),
        _parts(b'{"n":6,"z":1,"a":null}', b""),
        b"",
        (b"\0", b"\0\0\0\x05{}", _parts(b"{}") + b"\0\0"),
        path=lambda name: f"[/0/{name}]",
        typed=False,
        skips=True,
    ),
    Sample(
        TypeDefinition("both", "composite-global", parts=_MIXED),
        _parts(b'{"a":"x", "n":5,"l":1}', b"f=2.5;e=;l=2"),
        _parts(b'{"n":6,"z":1,"a":null}', b""),
        b"",
        (b"\0", b"\0\0\0\x05{}", _parts(b"{}") + b"\0\0"),
        typed=False,
    ),
    Sample(
        TypeDefinition(
            "orders", "protobuf", proto_type="trade.Order", proto_file=_schema("2", ORDER2), proto_paths=(".",)
        ),
        Order(a="x", n=5, f=2.5, l=[1, 2]).SerializeToString(),
        Order(a="", n=6, z=1).SerializeToString(),
        b"",
        (b"\x10", b"\x10\x05\x0a\x05x", b"\x07", b"\x3a\x02\x10"),
        path=lambda name: "/absent" if name == "q" else f"/{name}",
    ),
    Sample(
        TypeDefinition(
            "orders3", "protobuf", proto_type="trade.Order", proto_file=_schema("3", ORDER3), proto_paths=(".",)
        ),
        Order(a="x", n=5, f=2.5, l=[1, 2]).SerializeToString(),
        Order(a="", n=6, z=1).SerializeToString(),
        b"",
        (b"\x10", b"\x0a\x01\xff", b"\x07"),
    ),
    Sample(
        TypeDefinition("fixed", "struct", fields=_LAYOUT),
        _packed(b"x", 5, 2.5, 1, 2),
        _packed(b"", 6, 0.0, 0, 0),
        _packed(b"", 0, 0.0, 0, 0),
        (b"", _packed(b"x", 5, 2.5, 1, 2)[:-1]),
    ),
]
"""Every type once, and defined ones."""

"""Message types: two fields of every message, read in batches as a filter reads them, per type as a ratio to JSON.

``python -m tests.bench.run messages``. The messages are the orders of the other benchmarks in every format, encoded
by hand or by the format's own library; the rows of all types are compared before anything is ranked.
"""

from __future__ import annotations

import json
import statistics
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sowctl.messages.definition import TypeDefinition
from sowctl.messages.types import get_type
from sowctl.values.fields import Slot
from sowctl.values.paths import parse_path
from sowctl.values.scalars import to_plain_scalar, to_text
from tests.bench.data import lines
from tests.bench.place import Place
from tests.bench.rounds import Item, Wrong, judge, race, ratios, show, timed

TITLE = "messages: /region and /price of every message, by type"
COUNT = 50_000
BATCH = 1000
_TAGS = {"orderId": 37, "seq": 34, "symbol": 55, "region": 461, "price": 44, "qty": 38, "desk": 50, "note": 58}
_FLAT = tuple(name for name in _TAGS)
_STRUCT = struct.Struct("<qq7s4sdq56s")
_PROTO = """syntax = "proto3";
message Order {
  int64 order_id = 1; int64 seq = 2; string symbol = 3; string region = 4; double price = 5; int64 qty = 6;
  string desk = 7; string note = 8;
}
"""


def run(place: Place, rounds: int) -> None:
    """Encode, compare, time."""
    root = Path(place.root) / "messages"
    root.mkdir(exist_ok=True)
    orders = [json.loads(line) for line in lines(COUNT, COUNT)]
    kinds = _kinds(root)
    payloads = {name: [encode(order) for order in orders] for name, (_, encode, _) in kinds.items()}
    calls = {name: _reader(kinds[name][0], payloads[name], kinds[name][2]) for name in kinds}
    wanted = [(order["region"].encode(), order["price"]) for order in orders]
    for name, call in calls.items():
        rows = [(to_text(region), to_plain_scalar(price)) for part in call() for region, price in part]
        if rows != wanted:
            raise Wrong(f"the rows of {name} differ from those of the messages: nothing is ranked")
    size = {name: sum(map(len, payloads[name])) / COUNT for name in kinds}
    print(f"  {COUNT:,} messages; bytes each: " + ", ".join(f"{name} {mean:.0f}" for name, mean in size.items()))
    found = race([Item(name, partial(timed, call)) for name, call in calls.items()], max(rounds, 5))
    show(found, base="json", count=COUNT)
    for name in ("fix", "nvfix"):
        judge(f"{name}: messages a second / json", 1 / statistics.median(ratios(found, name, "json")), 0.5)


def _reader(kind: str | TypeDefinition, payloads: list[bytes], paths: tuple[str, str]) -> Callable[[], list[Any]]:
    extract = get_type(kind).build_extractor([Slot(parse_path(path)) for path in paths])
    batches = [payloads[start : start + BATCH] for start in range(0, len(payloads), BATCH)]
    return lambda: [extract(batch)[0] for batch in batches]


def _kinds(root: Path) -> dict[str, tuple[str | TypeDefinition, Callable[[dict[str, Any]], bytes], tuple[str, str]]]:
    """By name: the type, the encoder of an order, the paths of region and price."""
    import bson
    import msgpack

    named = ("/region", "/price")
    (root / "order.proto").write_text(_PROTO)
    proto = TypeDefinition("p", "protobuf", proto_type="Order", proto_file="order.proto", proto_paths=(str(root),))
    fields = ("/orderId = q", "/seq = q", "/symbol = 7s", "/region = 4s", "/price = d", "/qty = q", "/note = 56s")
    parts = (TypeDefinition("json", "json"), TypeDefinition("binary", "binary"))
    tagged = ("/461", "/44")
    return {
        "json": ("json", _json, named),
        "fix": ("fix", lambda order: b"".join(b"%d=%b\x01" % (_TAGS[n], _text(order[n])) for n in _FLAT), tagged),
        "nvfix": ("nvfix", lambda order: b"".join(b"%b=%b\x01" % (n.encode(), _text(order[n])) for n in _FLAT), named),
        "xml": ("xml", _xml, ("/order/region", "/order/price")),
        "bson": ("bson", bson.encode, named),
        "msgpack": ("msgpack", msgpack.packb, named),
        "bflat": (
            "bflat",
            lambda order: get_type("bflat").build_message([((name,), order[name]) for name in _FLAT]),
            named,
        ),
        "composite-local": (
            TypeDefinition("local", "composite-local", parts=parts),
            lambda order: b"".join(len(part).to_bytes(4, "big") + part for part in (_json(order), b"\0" * 40)),
            ("/0/region", "/0/price"),
        ),
        "composite-global": (
            TypeDefinition("global", "composite-global", parts=parts),
            lambda order: b"".join(len(part).to_bytes(4, "big") + part for part in (_json(order), b"\0" * 40)),
            named,
        ),
        "protobuf": (proto, _protobuf, named),
        "struct": (TypeDefinition("s", "struct", fields=fields), _struct, named),
    }


def _json(order: dict[str, Any]) -> bytes:
    return json.dumps(order, separators=(",", ":")).encode()


def _text(value: object) -> bytes:
    return str(value).encode()


def _xml(order: dict[str, Any]) -> bytes:
    return (
        b"<order>" + b"".join(b"<%b>%b</%b>" % (n.encode(), _text(order[n]), n.encode()) for n in _FLAT) + b"</order>"
    )


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _varint(value >> 7)


def _protobuf(order: dict[str, Any]) -> bytes:
    def text(number: int, name: str) -> bytes:
        raw = order[name].encode()
        return bytes([number << 3 | 2]) + _varint(len(raw)) + raw

    return (
        b"\x08%b\x10%b" % (_varint(order["orderId"]), _varint(order["seq"]))
        + text(3, "symbol")
        + text(4, "region")
        + b"\x29"
        + struct.pack("<d", order["price"])
        + b"\x30"
        + _varint(order["qty"])
        + text(7, "desk")
        + text(8, "note")
    )


def _struct(order: dict[str, Any]) -> bytes:
    return _STRUCT.pack(
        order["orderId"],
        order["seq"],
        order["symbol"].encode(),
        order["region"].encode(),
        order["price"],
        order["qty"],
        order["note"].encode(),
    )

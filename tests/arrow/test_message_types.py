"""One law for every message type: columns of messages that a plain library made are what its model says, with no, one
and two values of each repeated field, whether the fields are declared or inferred."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import bson
import msgpack
import pyarrow as pa
import pytest

from sowctl.arrow.column_passes import MessageBlock
from sowctl.arrow.inference import Inference
from sowctl.arrow.struct_decoder import StructDecoder
from sowctl.arrow.tables import build_table
from sowctl.messages.base import MessageType, find_columns_view
from sowctl.messages.definition import TypeDefinition
from sowctl.messages.types import get_type
from tests.support.protosamples import ORDER3, Order

Model = dict[str, Any]
MODELS: list[Model] = [
    {"n": number, "l": longs, "t": texts, "g": groups}
    for number, (longs, texts, groups) in enumerate(
        product(([], [7], [8, 9]), ([], ["a"], ["b", "c"]), ([], [{"q": 5}], [{"q": 6}, {"q": 7}]))
    )
]
"""A number, and 0, 1 and 2 whole numbers, texts and objects, in all combinations."""
GROUPS = pa.list_(pa.struct([("q", pa.int64())]))
FLAT = {"n": pa.int64(), "l": pa.list_(pa.int64()), "t": pa.list_(pa.string())}
NESTED = FLAT | {"g": GROUPS}


class Plain(NamedTuple):
    """A message type; ``encode`` makes its messages without it; ``fields`` are those that it can hold.

    ``shown`` makes of a model the row that columns are to have.
    """

    kind: str | TypeDefinition
    encode: Callable[[Model], bytes]
    fields: dict[str, pa.DataType]
    shown: Callable[[Model], Model]

    def __str__(self) -> str:
        return self.kind if isinstance(self.kind, str) else self.kind.kind

    def type(self, tmp_path: Path) -> MessageType:
        """The type; its schema, where it needs one, is in ``tmp_path``."""
        if not isinstance(self.kind, str) and self.kind.kind == "protobuf":
            (tmp_path / "order.proto").write_text(ORDER3)
            return get_type(
                TypeDefinition(
                    "orders",
                    "protobuf",
                    proto_type="trade.Order",
                    proto_file="order.proto",
                    proto_paths=(str(tmp_path),),
                )
            )
        return get_type(self.kind)


def same(model: Model) -> Model:
    return model


def flat(model: Model) -> Model:
    """Without objects; a field without values is not there."""
    return {name: model[name] if model[name] != [] else None for name in ("n", "l", "t")}


def absent(model: Model) -> Model:
    """A field without values is not there."""
    return {name: None if value == [] else value for name, value in model.items()}


def encode_pairs(model: Model) -> bytes:
    pairs = [("n", model["n"]), *(("l", one) for one in model["l"]), *(("t", one) for one in model["t"])]
    return b"".join(f"{name}={value}\x01".encode() for name, value in pairs)


TAGS = {"n": "1", "l": "4", "t": "58"}


def encode_fix(model: Model) -> bytes:
    pairs = [("1", model["n"]), *(("4", one) for one in model["l"]), *(("58", one) for one in model["t"])]
    return b"".join(f"{name}={value}\x01".encode() for name, value in pairs)


def encode_xml(model: Model) -> bytes:
    root = ElementTree.Element("m")
    for name in ("n", "l", "t"):
        for one in [model["n"]] if name == "n" else model[name]:
            ElementTree.SubElement(root, name).text = str(one)
    for one in model["g"]:
        ElementTree.SubElement(ElementTree.SubElement(root, "g"), "q").text = str(one["q"])
    return ElementTree.tostring(root)


def encode_bflat(model: Model) -> bytes:
    """Whole numbers of 64 bits (type 6) and strings (type 1), each a field of its own."""
    numbers = [(b"n", model["n"]), *((b"l", one) for one in model["l"])]
    whole = b"".join(bytes([6 << 3 | 1]) + tag + struct.pack("<q", one) for tag, one in numbers)
    return whole + b"".join(bytes([1 << 3 | 1]) + b"t" + bytes([len(one)]) + one.encode() for one in model["t"])


def encode_protobuf(model: Model) -> bytes:
    legs = [Order(n=one["q"]) for one in model["g"]]
    return bytes(Order(z=model["n"], l=model["l"], legs=legs, a="x", raw=RAW).SerializeToString())


RAW = b"\xe5\xff\x00"
LEGS = pa.list_(pa.struct([("n", pa.int32())]))


def show_protobuf(model: Model) -> Model:
    return absent({"z": model["n"], "l": model["l"], "legs": [{"n": one["q"]} for one in model["g"]], "raw": RAW})


def join_parts(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4) + part for part in parts)


PARTS = (TypeDefinition("json", "json"), TypeDefinition("nvfix", "nvfix"))


def encode_local(model: Model) -> bytes:
    return join_parts(json.dumps(model).encode(), encode_pairs(model))


def show_local(model: Model) -> Model:
    return {"0": model, "1": flat(model)}


def encode_global(model: Model) -> bytes:
    """The first value of ``l`` in the first part, the others in the second one."""
    first = b"n=%d\x01" % model["n"] + b"".join(b"l=%d\x01" % one for one in model["l"][:1])
    second = {"t": model["t"], "g": model["g"]} | ({"l": model["l"][1]} if len(model["l"]) > 1 else {})
    return join_parts(first, json.dumps(second).encode())


def show_global(model: Model) -> Model:
    return model | {"l": model["l"] or None}


PLAIN = [
    Plain("json", lambda model: json.dumps(model).encode(), NESTED, same),
    Plain("bson", lambda model: bytes(bson.encode(model)), NESTED, same),
    Plain("msgpack", lambda model: bytes(msgpack.packb(model)), NESTED, same),
    Plain("nvfix", encode_pairs, FLAT, flat),
    Plain(
        "fix",
        encode_fix,
        {TAGS[name]: kind for name, kind in FLAT.items()},
        lambda model: {TAGS[name]: value for name, value in flat(model).items()},
    ),
    Plain("xml", encode_xml, {"m": pa.struct(list(NESTED.items()))}, lambda model: {"m": absent(model)}),
    Plain("bflat", encode_bflat, FLAT, flat),
    Plain(
        TypeDefinition("orders", "protobuf"),
        encode_protobuf,
        {"z": pa.int64(), "l": pa.list_(pa.int64()), "legs": LEGS, "raw": pa.binary()},
        show_protobuf,
    ),
    Plain(
        TypeDefinition("local", "composite-local", parts=PARTS),
        encode_local,
        {"0": pa.struct(list(NESTED.items())), "1": pa.struct(list(FLAT.items()))},
        show_local,
    ),
    Plain(
        TypeDefinition("global", "composite-global", parts=PARTS[::-1]),
        encode_global,
        NESTED,
        show_global,
    ),
]
EVERY = pytest.mark.parametrize("plain", PLAIN, ids=str)


def narrow(value: Any, kind: pa.DataType) -> Any:
    """The part of an inferred value that a declared type has."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_struct(kind):
        return {field.name: narrow(value[field.name], field.type) for field in kind}
    return [narrow(one, kind.value_type) for one in value]


@EVERY
def test_declared_columns_are_the_model(tmp_path: Path, plain: Plain) -> None:
    fields = pa.struct(list(plain.fields.items()))
    payloads = list(map(plain.encode, MODELS))
    found = StructDecoder(fields).decode_payloads(payloads, plain.type(tmp_path))
    assert found.to_pylist() == list(map(plain.shown, MODELS))


@EVERY
def test_inferred_columns_are_the_model(tmp_path: Path, plain: Plain) -> None:
    kind = plain.type(tmp_path)
    payloads = list(map(plain.encode, MODELS))
    found = Inference(repeatable=kind.repeatable)
    found.add(map(kind.members_view, payloads))
    rows = StructDecoder(found.build_struct(), strict=True).decode_payloads(payloads, kind).to_pylist()
    assert_model(plain, rows)


@EVERY
def test_a_table_is_the_model_in_whatever_order_messages_come(tmp_path: Path, plain: Plain) -> None:
    kind = plain.type(tmp_path)
    for models in (MODELS, MODELS[::-1]):
        views = [find_columns_view(kind)(plain.encode(model)) for model in models]
        # Blocks of one message, so that later ones do not fit what earlier ones said.
        blocks = [MessageBlock([view], repeatable=kind.repeatable) for view in views]
        rows = build_table(lambda blocks=blocks: blocks).to_pylist()
        assert_model(plain, rows)


def sorted_by(plain: Plain, row: Model) -> int:
    """The number of a row."""
    for name in ("n", "z", "1", "m", "0"):
        value = row.get(name)
        if isinstance(value, dict):
            value = value["n"]
        if value is not None:
            return int(value)
    raise AssertionError(row)


def assert_model(plain: Plain, rows: list[Model]) -> None:
    fields = {name: kind for name, kind in plain.fields.items() if name != "raw"}
    wanted = [{name: plain.shown(model)[name] for name in fields} for model in MODELS]
    found = [narrow(row, pa.struct(list(fields.items()))) for row in rows]
    assert sorted(found, key=lambda row: sorted_by(plain, row)) == wanted


@pytest.mark.parametrize("count", [1, 2])
def test_declared_columns_of_a_layout_are_its_values(count: int) -> None:
    definition = TypeDefinition("fixed", "struct", fields=("/n = B", f"/l = <{count}h"))
    values = list(range(7, 7 + count))
    payload = struct.pack(f"<B{count}h", 3, *values)
    fields = pa.struct([("n", pa.int64()), ("l", pa.list_(pa.int64()))])
    found = StructDecoder(fields).decode_payloads([payload], get_type(definition)).to_pylist()
    assert found == [{"n": 3, "l": values}]

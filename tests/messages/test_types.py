"""The table of message types, and binary."""

from __future__ import annotations

import base64
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.errors import ConfigError, UsageError
from sowctl.messages.types import get_type, list_type_names
from sowctl.values.fields import Slot, ValueList
from sowctl.values.paths import parse_path


@pytest.mark.parametrize("name", list_type_names())
def test_every_type_of_the_table_keeps_the_protocol(name: str) -> None:
    kind = get_type(name, max_message=4)
    assert kind.name == name
    slots = [Slot(parse_path("/a")), Slot(parse_path("/a"), listed=True)]
    rows, refusals = kind.build_extractor(slots)([b"12345"])
    assert rows == [(None, None)]
    assert [(r.index, r.code) for r in refusals] == [(0, "SOW-MSG-004")]
    assert kind.check_payloads([b"12345"]) == refusals
    assert kind.build_key_extractor([parse_path("/a")])([b"12345"]) == ([(None,)], refusals)


@pytest.mark.parametrize(("name", "near"), [("jsno", "json"), ("JSON", "json"), ("bin", "binary")])
def test_an_unknown_type_names_near_ones(name: str, near: str) -> None:
    with pytest.raises(ConfigError) as caught:
        get_type(name)
    assert caught.value.code == "SOW-MSG-006"
    assert f"did you mean {near}?" in (caught.value.hint or "")


def test_an_outlandish_type_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        get_type("q")
    assert caught.value.hint == "message types: " + ", ".join(list_type_names())


def test_the_table_loads_nothing_heavy() -> None:
    heavy = ("numpy", "pcre2", "msgpack", "bson", "google.protobuf", "xml.parsers.expat", "json")
    loading = "import sys, sowctl.messages.types, sowctl.messages.framing.frames"
    script = f"{loading}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@given(st.binary())
def test_a_binary_view_is_a_json_string_of_base64(payload: bytes) -> None:
    view = get_type("binary").view(payload)
    assert b"\n" not in view
    assert base64.b64decode(json.loads(view), validate=True) == payload


def test_binary_has_no_fields() -> None:
    kind = get_type("binary")
    assert not kind.filterable
    slots = [Slot(parse_path("/a")), Slot(parse_path("/a"), listed=True)]
    assert kind.build_extractor(slots)([b'{"a":1}', b""]) == ([(None, ValueList(()))] * 2, [])
    assert kind.build_key_extractor([parse_path("/a")])([b'{"a":1}']) == ([(None,)], [])
    assert kind.check_payloads([b"\xff\x00"]) == []
    with pytest.raises(UsageError) as caught:
        kind.select_fields(b"x", [])
    assert caught.value.code == "SOW-MSG-005"

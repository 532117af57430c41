"""A new message type: publish, query and eval need only a class and one row of the table."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sowctl.messages.base import (
    MALFORMED_CODE,
    Extractor,
    KeyExtractor,
    Members,
    PayloadRefused,
    SelectList,
    build_input_error,
    build_no_fields_error,
    read_each,
)
from sowctl.messages.types import (
    DEFINED_TYPES,
    FIELDLESS_TYPES,
    MESSAGE_TYPES,
    UNCONSTRUCTIBLE_TYPES,
    choose_framing,
    list_type_names,
)
from sowctl.values.fields import FieldWrite, Refusal, Slot, ValueList
from sowctl.values.paths import Path as FieldPath
from tests.support.messagetypes import SAMPLES, Sample

ROOT = Path(__file__).parents[2]
CONFIG = """<AMPSConfig><Name>one</Name><SOW><Topic><Name>words</Name><MessageType>pair</MessageType>
<Key>/left</Key><FileName>./%n.sow</FileName></Topic></SOW></AMPSConfig>"""
RUN = """
import sys
from sowctl.messages.types import MESSAGE_TYPES
MESSAGE_TYPES["pair"] = ("tests.messages.test_new_type", "PairType")
from sowctl.cli.main import run
run()
"""


class PairType:
    """``left:right``: two fields and nothing else, read-only."""

    kind = "pair"
    filterable = True
    selectable = mergeable = constructible = json_text = rooted = False
    typed = True
    repeatable = False
    line_framed = True

    def __init__(self, max_message: int, *, definition: object = None) -> None:
        self.name = "pair"

    def build_extractor(self, slots: Sequence[Slot]) -> Extractor:
        def row(payload: bytes) -> tuple[str | ValueList | None, ...]:
            fields = self._fields(payload)
            found = [fields.get(slot.path.names[0]) for slot in slots]
            return tuple(
                ValueList((one,) if one else ()) if slot.listed else one for slot, one in zip(slots, found, strict=True)
            )

        return lambda payloads: read_each(payloads, row, (None,) * len(slots))

    def build_key_extractor(self, paths: Sequence[FieldPath]) -> KeyExtractor:
        def texts(payload: bytes) -> tuple[bytes | None, ...]:
            fields = self._fields(payload)
            return tuple([fields[path.names[0]].encode() for path in paths])

        return lambda payloads: read_each(payloads, texts, (None,) * len(paths))

    def check_payloads(self, payloads: Sequence[bytes]) -> list[Refusal]:
        return read_each(payloads, self._fields, {})[1]

    def select_fields(self, payload: bytes, select_list: SelectList) -> bytes:
        raise build_no_fields_error(self.name, "to select")

    def merge_delta(self, base: bytes, delta: bytes, *, set_nulls: bool = False) -> bytes:
        return delta

    def assign_fields(self, payload: bytes, writes: Sequence[FieldWrite]) -> bytes:
        raise build_no_fields_error(self.name, "to write")

    def build_message(self, fields: Members) -> bytes:
        raise build_no_fields_error(self.name, "to write")

    def view(self, payload: bytes) -> bytes:
        try:
            return json.dumps(self._fields(payload)).encode()
        except PayloadRefused as problem:
            raise build_input_error(problem) from None

    members_view = view

    def _fields(self, payload: bytes) -> dict[str, str]:
        left, colon, right = payload.decode().partition(":")
        if not colon:
            raise PayloadRefused(MALFORMED_CODE, "there is no colon")
        return {"left": left, "right": right}


def run(folder: Path, *arguments: str, data: bytes = b"") -> tuple[int, str, str]:
    command = [sys.executable, "-c", RUN, *arguments]
    path = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, input=data, capture_output=True, cwd=folder, env=path)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_class_and_a_row_are_enough_for_publish_query_and_eval(tmp_path: Path) -> None:
    (tmp_path / "sowctl.xml").write_text(CONFIG)
    assert run(tmp_path, "publish", "words", "-q", data=b"a:1\nb:2\na:3\n")[0] == 0
    status, shown, told = run(tmp_path, "query", "words", "--filter", "/right = '3'", "--format", "raw")
    assert (status, shown, told) == (0, "a:3\n", "")
    assert run(tmp_path, "get", "words", "b", "--format", "raw")[1] == "b:2\n"
    evaluated = run(tmp_path, "eval", "CONCAT(/left, /right)", "--message-type", "pair", data=b"x:y\n")
    assert evaluated[:2] == (0, '"xy"\n')
    status, _, told = run(tmp_path, "publish", "words", data=b"none\n")
    assert status == 3
    assert "there is no colon" in told


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_what_configurations_are_checked_against_is_what_the_classes_say(sample: Sample) -> None:
    kind = sample.type()
    assert (kind.kind in FIELDLESS_TYPES) is not kind.filterable
    assert (kind.kind in UNCONSTRUCTIBLE_TYPES) is not kind.constructible
    assert choose_framing(kind.kind) == ("json" if kind.json_text else "lines" if kind.line_framed else "length")
    if kind.json_text:
        assert json.loads(sample.message) == json.loads(kind.view(sample.message))


def test_text_types_are_lines_where_no_framing_is_given() -> None:
    lines = {name for name in (*list_type_names(), *DEFINED_TYPES) if choose_framing(name) != "length"}
    assert lines == {"json", "fix", "nvfix", "xml", "binary"}
    assert set(MESSAGE_TYPES) == set(list_type_names())

"""Lines of JSON of this program's own: what strict readers take."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sowctl.values.jsonline import format_json_line

TEXTS = st.text(st.characters(exclude_categories=()))


@given(st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.lists(TEXTS), st.dictionaries(TEXTS, TEXTS))))
def test_every_line_is_json_for_strict_readers(row: dict[str, object]) -> None:
    line = format_json_line(row)
    assert line.isascii() and "\n" not in line
    # msgspec refuses half a surrogate pair.
    read = msgspec.json.decode(line)
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert read == json.loads(line) == row


def test_a_byte_that_is_no_utf_8_is_visible() -> None:
    row = {"place": b"a\xbf\xff".decode("utf-8", "surrogateescape"), "path": PurePosixPath("x\udc80"), "s": "\ud800"}
    assert json.loads(format_json_line(row)) == {"place": "a\\xbf\\xff", "path": "x\\x80", "s": "\\ud800"}
    assert format_json_line({"s": "\U0001f600"}) == '{"s": "\\ud83d\\ude00"}'

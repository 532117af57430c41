"""One record on a terminal: in lines, with every digit of the message."""

from __future__ import annotations

import io

from sowctl.output.onerecord import write_record
from sowctl.output.options import Terminal
from sowctl.output.records import OutputBatch, OutputRecord


def written(payload: bytes, message_type: str = "json", view: bytes | None = None) -> str:
    out = io.BytesIO()
    batch = OutputBatch("t", message_type, lambda one: view or one, [OutputRecord(payload)])
    write_record(batch, Terminal(40), out, meta=False)
    return out.getvalue().decode()


def test_json_is_indented_and_keeps_its_numbers_and_members() -> None:
    text = written(b'{"id":1.50,"id":2,"a":{"b":[1e400]},"e":{}}')
    assert "".join(text.split()) == '{"id":1.50,"id":2,"a":{"b":[1e400]},"e":{}}'
    assert text.count("\n") == 10


def test_nothing_in_it_commands_the_terminal() -> None:
    assert "\x1b" not in written('{"a":"\x9b31m\u202e"}'.encode())


def test_what_is_no_json_after_all_is_shown_as_it_is() -> None:
    assert written(b"{oops") == "{oops\n"
    assert written(b"[" * 5000 + b"]" * 5000).startswith("[")


def test_other_types_have_a_field_a_line() -> None:
    assert written(b"35=D", "fix", b'{"35":"D","long":"%s"}' % (b"x" * 60)) == f"35    D\nlong  {'x' * 60}\n"

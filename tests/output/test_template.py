"""Templates: holes, braces, escapes, and what is refused."""

from __future__ import annotations

import io

import pytest

from sowctl.errors import UsageError
from sowctl.output.formats import make_renderer
from sowctl.output.options import OutputOptions
from sowctl.output.records import OutputBatch, OutputRecord


def filled(template: str | None, payload: bytes, delimiter: bytes = b"\n") -> bytes:
    out = io.BytesIO()
    batch = OutputBatch("orders", "json", lambda data: data, [OutputRecord(payload, 17, 0, 0, 3)])
    make_renderer("template", OutputOptions(template=template, delimiter=delimiter)).write([batch], out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{sow_key} {/a} {topic}", b"17 1.50 orders\n"),
        ("{{{/a}}}", b"{1.50}\n"),
        ("{/missing}|{/n}|{/o}", b'||{"k":true}\n'),
        (r"{/a}\t{/t}\\", b"1.50\tx\ty\\\n"),
        ("{data}", b'{"a":1.50,"n":null,"o":{"k":true},"t":"x\\ty"}\n'),
        ("no holes", b"no holes\n"),
        ("{ timestamp }", b"1970-01-01T00:00:00.000000Z\n"),
        ("{sowkey}/{txid}/{length}", b"17/3/45\n"),
    ],
)
def test_templates(template: str, text: bytes) -> None:
    assert filled(template, b'{"a":1.50,"n":null,"o":{"k":true},"t":"x\\ty"}') == text


def test_bytes_that_are_not_text_go_through() -> None:
    assert filled("<{data}>", b"\xff\x00", b"\0") == b"<\xff\x00>\0"


@pytest.mark.parametrize(
    ("template", "code"),
    [(None, "SOW-OUT-020"), ("a { b", "SOW-OUT-021"), ("a } b", "SOW-OUT-021"), ("{price}", "SOW-OUT-001")],
)
def test_refused(template: str | None, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        filled(template, b"{}")
    assert caught.value.code == code

"""Terminals, colours, encodings, questions."""

from __future__ import annotations

import io

import pytest

from sowctl.cli.streams import Streams, is_terminal
from sowctl.errors import RefusedError
from tests.cli.conftest import Tty


def streams(stdin: bytes = b"", *, tty: bool = True, **environ: str) -> Streams:
    kind = Tty if tty else io.BytesIO
    return Streams(kind(stdin), kind(), kind(), environ)


@pytest.mark.parametrize("answer", [b"y\n", b"YES\n", b" yes "])
def test_yes(answer: bytes) -> None:
    asked = streams(answer)
    assert asked.must_confirm(yes=False)
    asked.confirm("delete 3 records")
    assert asked.stderr.getvalue() == b"delete 3 records? [y/N] "  # type: ignore[attr-defined]


@pytest.mark.parametrize("answer", [b"\n", b"n\n", b"", b"yellow\n"])
def test_anything_else_is_no(answer: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        streams(answer).confirm("delete 3 records")
    assert caught.value.code == "SOW-CLI-008"


def test_nobody_to_ask() -> None:
    with pytest.raises(RefusedError) as caught:
        streams(b"y\n", tty=False).must_confirm(yes=False)
    assert (caught.value.code, caught.value.exit_status) == ("SOW-CLI-007", 8)
    assert not streams(tty=False).must_confirm(yes=True)


@pytest.mark.parametrize(
    ("environ", "encoding"),
    [
        ({}, "utf-8"),
        ({"LANG": "en_US.UTF-8"}, "utf-8"),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, "ascii"),
        ({"LC_CTYPE": "de_DE.ISO-8859-1@euro"}, "iso8859-1"),
        ({"LC_ALL": "", "LANG": "C.UTF-8"}, "utf-8"),
        ({"LANG": "C.nonsense"}, "utf-8"),
    ],
)
def test_encoding(environ: dict[str, str], encoding: str) -> None:
    assert streams(**environ).find_encoding() == encoding


def test_columns() -> None:
    assert streams(COLUMNS="33").measure_columns() == 33
    assert streams(COLUMNS="0").measure_columns() == 80
    assert streams(COLUMNS="wide").measure_columns() == 80


def test_talk_survives_a_standard_error_that_is_gone() -> None:
    gone = streams()
    gone.stderr.close()
    gone.write_stderr("nobody hears this")
    assert not is_terminal(gone.stderr)

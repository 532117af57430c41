"""Detect inputs that are not UTF-8 by their first bytes: every text that the program reads is UTF-8.

UTF-16 of ASCII without a mark is valid UTF-8, too, with a zero byte beside each letter: it would be read as different
names and values.
"""

from __future__ import annotations

from sowctl.errors import InputError

HEAD_BYTES = 4
"""Number of leading bytes that determine the encoding of an input."""
WRONG_ENCODING = "SOW-INP-006"
UTF8_BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""
_UNSUPPORTED_BOMS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def find_encoding(head: bytes, *, marks_alone: bool = False) -> str | None:
    """The encoding of an input that begins with ``head`` if that is UTF-16 or UTF-32; None for any other.

    ``marks_alone``: only a byte order mark determines it, because zero bytes have a meaning in this input.
    """
    for mark, name in _UNSUPPORTED_BOMS:
        if head.startswith(mark):
            return name
    if marks_alone or len(head) < HEAD_BYTES:
        return None
    # Two letters of ASCII in 16 bits each: no text in UTF-8 has a zero byte beside every letter.
    zeros = [not byte for byte in head[:HEAD_BYTES]]
    if zeros == [False, True, False, True]:
        return "UTF-16LE"
    return "UTF-16BE" if zeros == [True, False, True, False] else None


def refuse_encoding(head: bytes, name: str, *, marks_alone: bool = False) -> None:
    """Raises InputError ``SOW-INP-006`` if the input ``name`` begins with ``head`` and is UTF-16 or UTF-32."""
    found = find_encoding(head, marks_alone=marks_alone)
    if found is not None:
        from shlex import quote

        source = "" if name.startswith("(") else f" {quote(name)}"
        hint = f"convert it first: iconv -f {found} -t UTF-8{source}"
        raise InputError(WRONG_ENCODING, f"the input is {found} instead of UTF-8", place=name, hint=hint)


def decode_text(data: bytes, name: str) -> str:
    """The text of a whole input, without its byte order mark. Raises InputError ``SOW-INP-006`` if it is not UTF-8."""
    refuse_encoding(data[:HEAD_BYTES], name)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        words = f"the input is not UTF-8: byte 0x{data[problem.start]:02X} at offset {problem.start}"
        raise InputError(WRONG_ENCODING, words, place=name, hint="save it as UTF-8", byte=problem.start) from None

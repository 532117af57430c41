"""String, case and pattern functions over bytes (``sowctl-expressions(7)``, functions)."""

from __future__ import annotations

from sowctl.expressions.environment import LONG_TEXT_BYTES, Environment
from sowctl.expressions.functions.signature import declare_function
from sowctl.expressions.syntax.patterns import Matcher

_MAX_UNCHECKED_TEXTS = 4
"""Number of texts that are joined without checking their length: four of the longest take 256 MiB."""
_MAX_PENDING_PARTS = 1000
"""Parts between matches that are collected before they are joined."""


def instr(text: bytes, wanted: bytes) -> int:
    """1-based byte position of the first ``wanted``, 0 if there is none."""
    return text.find(wanted) + 1


def instr_i(text: bytes, wanted: bytes) -> int:
    """:func:`instr` ignoring ASCII case."""
    return text.lower().find(wanted.lower()) + 1


def concat(env: Environment, *texts: bytes | None) -> bytes:
    """The joined texts; NULLs add nothing."""
    # A few texts are joined without computing their total length, which costs a third less.
    if len(texts) > _MAX_UNCHECKED_TEXTS:
        env.count_text(sum([len(text) for text in texts if text is not None]))
        return b"".join([text for text in texts if text is not None])
    made = b"".join([text for text in texts if text is not None])
    if len(made) > LONG_TEXT_BYTES:
        env.count_text(len(made))
    return made


def substr(text: bytes, start: int, length: int | None = None) -> bytes:
    """Part of a text: position 1 is the first byte, a negative one counts from the end and is clamped to the start."""
    # Position 0 counts as 1. A start before the text is clamped before the length is applied, so the length is not
    # reduced.
    begin = max(start - 1, 0) if start >= 0 else max(len(text) + start, 0)
    if length is None:
        return text[begin:]
    return text[begin : begin + length] if length > 0 else b""


def left(text: bytes, count: int) -> bytes:
    """The first bytes."""
    return text[:count] if count > 0 else b""


def right(text: bytes, count: int) -> bytes:
    """The last bytes."""
    # [-0:] would be the whole text.
    return text[-count:] if count > 0 else b""


def trim(text: bytes | None, *members: bytes | None) -> bytes | None:
    """The text without the bytes of the set (one space by default) at both ends."""
    # bytes.strip() with an empty set strips nothing; with None it would strip white space.
    return text and text.strip(_trim_members(members))


def ltrim(text: bytes | None, *members: bytes | None) -> bytes | None:
    """:func:`trim` at the start only."""
    return text and text.lstrip(_trim_members(members))


def rtrim(text: bytes | None, *members: bytes | None) -> bytes | None:
    """:func:`trim` at the end only."""
    return text and text.rstrip(_trim_members(members))


def _trim_members(members: tuple[bytes | None, ...]) -> bytes:
    # Without a second argument spaces are stripped; a NULL argument is an empty set and strips nothing.
    return (members[0] or b"") if members else b" "


def replace(env: Environment, text: bytes | None, old: bytes | None, new: bytes | None) -> bytes | None:
    """The text with every ``old`` replaced from left to right; NULL ``old`` changes nothing, NULL ``new`` deletes."""
    # NULL is the empty text, and an empty text would be found everywhere.
    if text is None or old is None:
        return text
    if new is None:
        return text.replace(old, b"")
    # The product is an upper bound of the result; replacement by nothing only shortens the text.
    if len(text) * len(new) > LONG_TEXT_BYTES:
        env.count_text(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


def regexp_match(text: bytes | None, pattern: Matcher | None) -> bytes | None:
    """The text of the first whole match."""
    if text is None or pattern is None:
        return None
    for start, end in pattern.find_spans(text):
        return text[start:end]
    return None


def regexp_replace(env: Environment, text: bytes | None, pattern: Matcher | None, new: bytes | None) -> bytes | None:
    """The text with every match replaced by literal text."""
    if text is None or pattern is None:
        return text
    new = new or b""
    # Joined during matching: a list of all parts would take fifty bytes for each.
    most = _MAX_PENDING_PARTS if len(new) * _MAX_PENDING_PARTS < LONG_TEXT_BYTES else 1 + LONG_TEXT_BYTES // len(new)
    parts: list[bytes] = []
    made: bytearray | None = None
    position = 0
    for start, end in pattern.find_spans(text):
        parts.append(text[position:start])
        position = end
        if len(parts) >= most:
            if made is None:
                made = bytearray()
            made += new.join((*parts, b""))
            parts.clear()
            if len(made) > env.limits.value_bytes:
                break
    if not parts and made is None:
        return text
    parts.append(text[position:])
    rest = new.join(parts)
    if made is None and len(rest) <= LONG_TEXT_BYTES:
        return rest
    whole = rest if made is None else bytes(made + rest)
    env.count_text(len(whole))
    return whole


STRING_FUNCTIONS = (
    declare_function(
        "INSTR", instr, "text text", "number", "byte position of the first t in s, counted from 1; 0 if there is none"
    ),
    declare_function("INSTR_I", instr_i, "text text", "number", "INSTR, ignoring ASCII case"),
    declare_function(
        "STREQUAL_I",
        lambda s, t: s.lower() == t.lower(),
        "text text",
        "truth",
        "whether s and t are equal, ignoring ASCII case",
    ),
    declare_function("LENGTH", len, "text", "number", "number of bytes"),
    declare_function("CONCAT", concat, "text ...", "text", "the texts, joined", strict=False, gets="bounds"),
    declare_function(
        "SUBSTR",
        substr,
        "text integer integer?",
        "text",
        "bytes from position start, counted from 1; a negative start counts from the end",
    ),
    declare_function("LEFT", left, "text integer", "text", "the first n bytes"),
    declare_function("RIGHT", right, "text integer", "text", "the last n bytes"),
    declare_function(
        "TRIM",
        trim,
        "text text?",
        "text",
        "text without leading and trailing bytes of the set; default: one space",
        strict=False,
    ),
    declare_function(
        "LTRIM", ltrim, "text text?", "text", "text without leading bytes of the set; default: one space", strict=False
    ),
    declare_function(
        "RTRIM", rtrim, "text text?", "text", "text without trailing bytes of the set; default: one space", strict=False
    ),
    declare_function("REVERSE", lambda s: s[::-1], "text", "text", "the bytes in reverse order"),
    declare_function("UPPER", bytes.upper, "text", "text", "text with ASCII letters in upper case"),
    declare_function("LOWER", bytes.lower, "text", "text", "text with ASCII letters in lower case"),
    declare_function(
        "REPLACE",
        replace,
        "text text text",
        "text",
        "text with every t replaced by r, from left to right",
        strict=False,
        gets="bounds",
    ),
    declare_function(
        "REGEXP_REPLACE",
        regexp_replace,
        "text pattern text",
        "text",
        "text with every match of the pattern replaced by r; r is literal text",
        strict=False,
        gets="bounds",
    ),
    declare_function(
        "REGEXP_MATCH", regexp_match, "text pattern", "text", "text of the first match, not of its groups", strict=False
    ),
)

"""Framing ``envelope``: one JSON object per line with a message and its metadata (``sowctl(1)``, INPUT).

Members, all optional except the data, null equivalent to absent: ``topic message_type sow_key correlation_id client
bookmark command operation message_bookmark`` (strings), ``sequence txid`` (whole numbers), ``timestamp`` (a string, or
a number since 1970), ``expiration`` (a number of seconds, or a string with an instant), and either ``data`` (any JSON:
its exact bytes are the message) or ``data_base64``. An ``operation`` marks the line as a journal entry; one other than
publish has no data. A line with other members is refused unless they are ignored; so are duplicate members and values
of other kinds. The content of strings is interpreted by the caller.

Lines are decoded by the fast decoder if its result is provably exact; any other line by the exact JSON reader.
"""

from __future__ import annotations

import binascii
import re
from math import isfinite
from operator import attrgetter
from typing import Literal

import msgspec

from sowctl.errors import SowError
from sowctl.messages.base import SURROGATE_CODE, SURROGATE_WORDS
from sowctl.messages.json.exact_reader import JsonRefused, SpannedValue, parse_members, replace_surrogates
from sowctl.values.depth import MAX_DEPTH, is_deep
from sowctl.values.fields import Number
from sowctl.values.times import format_time, parse_epoch

NOT_AN_ENVELOPE = "SOW-INP-010"
UNKNOWN_MEMBER = "SOW-INP-011"
REPEATED_MEMBER = "SOW-INP-012"
WRONG_KIND = "SOW-INP-013"
NO_DATA = "SOW-INP-014"
BAD_BASE64 = "SOW-INP-015"

_UINT64_RANGE = 1 << 64


class EnvelopeFormat(msgspec.Struct, frozen=True):
    """How envelopes are read. ``time_unit``: that of numbers as times. ``client``: the client of which Kafka partitions
    become publishers; None if offsets are not used."""

    name: Literal["sowctl", "kafka", "debezium"] = "sowctl"
    ignores_unknown: bool = False
    time_unit: str = "ms"
    client: str | None = None


OWN_FORMAT = EnvelopeFormat()


class Envelope(msgspec.Struct, gc=False):
    """The metadata of one message; None for absent members. ``expiration``: seconds, or an instant as text.

    ``operation``: the line is a journal entry, with its original operation.
    """

    topic: str | None = None
    message_type: str | None = None
    sow_key: str | None = None
    timestamp: str | None = None
    expiration: int | float | str | None = None
    correlation_id: str | None = None
    client: str | None = None
    sequence: int | None = None
    txid: int | None = None
    bookmark: str | None = None
    command: str | None = None
    operation: str | None = None
    message_bookmark: str | None = None


class _AnyLine(Envelope, gc=False):
    """A whole line. Unknown members are ignored."""

    timestamp: str | int | None = None  # type: ignore[assignment]  # a number becomes a text before anybody sees it
    data: msgspec.Raw = msgspec.Raw(b"")
    data_base64: str | None = None


class _EnvelopeLine(_AnyLine, gc=False, forbid_unknown_fields=True):
    """A whole line of known members."""


_METADATA_FIELDS = Envelope.__struct_fields__
_MEMBER_NAMES = _EnvelopeLine.__struct_fields__
_get_metadata = attrgetter(*_METADATA_FIELDS)
_MEMBER_PATTERN = re.compile(rb'"([^"]*+)"\s*+:')
"""Matches every member name if quotes alternate between opening and closing ones and no name starts with a colon."""
_CONTAINER_OPENERS = (b"{", b"[")
"""First bytes of data that cannot be confused with a member name when the data is cut out of its line."""
_COUNT_FIELDS = ("sequence", "txid")
_decode_line = msgspec.json.Decoder(_EnvelopeLine).decode
_decode_any_line = msgspec.json.Decoder(_AnyLine).decode


class EnvelopeRefused(ValueError):
    """The reason why a line is no envelope: code, message, and the offset in the line if known."""

    def __init__(self, code: str, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.offset = offset


def format_epoch(number: str, unit: str) -> str:
    """The text of a time that is a number since 1970. Raises :class:`EnvelopeRefused` outside the years 1 to 9999."""
    try:
        return format_time(parse_epoch(number, unit))
    except SowError as problem:
        raise EnvelopeRefused(WRONG_KIND, f"invalid time of an envelope: {problem.message}") from None


def open_envelope(line: bytes, form: EnvelopeFormat = OWN_FORMAT) -> tuple[bytes, Envelope]:
    """The message in ``line`` and its metadata (without the data). Raises :class:`EnvelopeRefused`."""
    try:
        whole = _decode_any_line(line) if form.ignores_unknown else _decode_line(line)
        # msgspec does not check the encoding of raw values, so the line is decoded once more.
        if not line.isascii():
            line.decode()
    except (ValueError, RecursionError):
        return open_envelope_exactly(line, form)
    # Below, only an object or array can be distinguished from a member name; any other data, and data that may be
    # nested too deeply, is read exactly.
    payload = bytes(whole.data)
    if payload[:1] not in _CONTAINER_OPENERS or whole.data_base64 is not None or is_deep(payload):
        return open_envelope_exactly(line, form)
    # Usually the data is the last member, directly before the closing brace; else it is searched from the right.
    at = len(line) - len(payload) - 1
    if line[at:-1] != payload:
        at = line.rfind(payload)
    # msgspec silently uses the last of repeated members, so the names in the rest of the line are counted. A name with
    # an escape has several spellings, so a line with a backslash goes to the exact reader.
    rest = line[:at] + line[at + len(payload) :]
    names = _MEMBER_PATTERN.findall(rest)
    if b"\\" in rest or len(set(names)) != len(names):
        return open_envelope_exactly(line, form)
    if not (0 <= (whole.sequence or 0) < _UINT64_RANGE and 0 <= (whole.txid or 0) < _UINT64_RANGE):
        return open_envelope_exactly(line, form)
    if isinstance(whole.timestamp, int):
        whole.timestamp = format_epoch(str(whole.timestamp), form.time_unit)
    return payload, Envelope(*_get_metadata(whole))


def open_envelope_exactly(line: bytes, form: EnvelopeFormat = OWN_FORMAT) -> tuple[bytes, Envelope]:
    """Payload and metadata of an envelope, by the exact reader, with a reason for every refusal."""
    try:
        # The envelope is one level around the data, which may be as deep as any message.
        root, repeated = parse_members(line, MAX_DEPTH + 1)
    except JsonRefused as problem:
        raise EnvelopeRefused(NOT_AN_ENVELOPE, f"invalid envelope: {problem.message}", problem.offset) from None
    if not isinstance(root.value, dict):
        raise EnvelopeRefused(NOT_AN_ENVELOPE, "an envelope must be a JSON object")
    members: dict[str, SpannedValue] = root.value
    unknown = [name for name in members if name not in _MEMBER_NAMES]
    if unknown and not form.ignores_unknown:
        known = " ".join(_MEMBER_NAMES)
        raise EnvelopeRefused(UNKNOWN_MEMBER, f"unknown member {unknown[0]!r} of an envelope; valid members: {known}")
    for name in unknown:
        del members[name]
    repeated = [name for name in repeated if name in _MEMBER_NAMES]
    if repeated:
        raise EnvelopeRefused(REPEATED_MEMBER, f"duplicate member {repeated[0]!r} of an envelope")
    values = {
        name: _check_metadata_value(name, member.value, form)
        for name, member in members.items()
        if name != "data" and member.value is not None
    }
    text = values.pop("data_base64", None)
    if values.get("operation") in (None, "publish") or text is not None or "data" in members:
        payload = _decode_data(line, members.get("data"), text)
    else:
        payload = b""
    return payload, Envelope(*[values.get(name) for name in _METADATA_FIELDS])  # type: ignore[arg-type]  # _value saw to the kinds


def _check_metadata_value(name: str, value: object, form: EnvelopeFormat) -> str | int | float:
    # Unpaired surrogates all read alike, so metadata with one would represent several texts.
    if isinstance(value, str) and name not in _COUNT_FIELDS:
        if replace_surrogates(value) != value:
            raise EnvelopeRefused(SURROGATE_CODE, f"the member {name!r} of an envelope has {SURROGATE_WORDS}")
        return value
    if isinstance(value, Number):
        if name == "expiration" and isfinite(value.value):
            return value.value
        if name == "timestamp":
            return format_epoch(value.text.decode(), form.time_unit)
        if name in _COUNT_FIELDS and isinstance(value.value, int) and value.value >= 0:
            return value.value
    wanted = {
        "expiration": "a number of seconds or a string",
        "timestamp": "a string or a number since 1970",
    } | dict.fromkeys(_COUNT_FIELDS, "an integer, at least 0")
    raise EnvelopeRefused(WRONG_KIND, f"the member {name!r} of an envelope must be {wanted.get(name, 'a string')}")


def _decode_data(line: bytes, data: SpannedValue | None, text: str | int | float | None) -> bytes:
    if data is not None and text is not None:
        raise EnvelopeRefused(NO_DATA, "an envelope has either data or data_base64, not both")
    if data is not None:
        # The message is exactly the bytes in the line: re-encoded, it might differ from what its publisher sent.
        return line[data.start : data.end]
    if text is None:
        raise EnvelopeRefused(NO_DATA, "the envelope has neither data nor data_base64")
    try:
        # Strict: other characters, and padding in the wrong place, are refused instead of skipped.
        return binascii.a2b_base64(str(text).encode(), strict_mode=True)
    except binascii.Error as problem:
        raise EnvelopeRefused(BAD_BASE64, f"data_base64 is not Base64: {str(problem).lower()}") from None

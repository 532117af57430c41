"""The fields of many tag=value messages at once: searched in all payloads joined, then inferred column by column.

Every payload is preceded by the separator, so ``SEP tag =`` finds a field anywhere, and no value extends into the next
payload. The results equal those of reading one payload after the other (``sowctl-expressions(7)``, FIX and NVFIX).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, repeat
from operator import ge, lt

from sowctl.messages.json.digits import MAX_INTEGER_DIGITS
from sowctl.values.fields import Number, Scalar, Slot, SlotValue, ValueList
from sowctl.values.paths import Path
from sowctl.values.scalars import make_untyped_number, parse_number

_MAX_EXACT_DIGITS = 15
"""Number of digits that a double always preserves."""
_NUMBER_BYTES = b"0123456789+-.eE"
_NUMBER_START_BYTES = frozenset(bytes([byte]) for byte in b"0123456789+-. \t\r\n")
_ZERO_DIGIT = ord("0")
_ABSENT_VALUE = ValueList(())


class JoinedPayloads:
    """Payloads joined by the separator, and the start and end of each."""

    def __init__(self, payloads: Sequence[bytes], separator: bytes) -> None:
        self.separator = separator
        self.count = len(payloads)
        # A separator before every field, including the first: the search finds a tag only at the beginning of a
        # field.
        self.bytes = separator.join((b"", *payloads, b""))
        self._payloads = payloads
        self._starts: list[int] | None = None

    @property
    def starts(self) -> list[int]:
        """Offsets of the separators before the payloads, and of the last separator."""
        if self._starts is None:
            self._starts = list(accumulate([len(payload) + 1 for payload in self._payloads], initial=0))
        return self._starts

    def find_values(self, tag: bytes) -> list[list[bytes]] | list[bytes]:
        """The values of one tag: one per payload if each has exactly one, else a list per payload."""
        needle = self.separator + tag + b"="
        # One pass over the whole batch for each tag, instead of one over each payload.
        pieces = self.bytes.split(needle)
        head = pieces.pop(0)
        if not pieces:
            nothing: list[list[bytes]] = [[] for _ in range(self.count)]
            return nothing
        separator = self.separator
        values = [piece.partition(separator)[0] for piece in pieces]
        size = len(needle)
        places = list(accumulate([len(piece) + size for piece in pieces[:-1]], initial=len(head)))
        starts = self.starts
        # The n-th value is in the n-th payload for all n: then each payload has exactly one.
        if len(values) == self.count and all(map(ge, places, starts)) and all(map(lt, places, starts[1:])):
            return values
        found: list[list[bytes]] = [[] for _ in range(self.count)]
        at, end = 0, starts[1]
        for place, value in zip(places, values, strict=True):
            # Places ascend, so the payload of the next one is found from that of the last.
            while place >= end:
                at += 1
                end = starts[at + 1]
            found[at].append(value)
        return found


def find_tag(path: Path, separator: bytes) -> bytes | None:
    """The tag that a path names; None if no field can have it."""
    # Messages are flat, so a path of several steps finds nothing; no tag contains an equals sign or the separator.
    if len(path.steps) != 1:
        return None
    tag = path.steps[0].name.encode("utf-8", "surrogatepass")
    return None if b"=" in tag or separator in tag else tag


def build_slot_column(joined: JoinedPayloads, slot: Slot) -> list[SlotValue]:
    """Build the column of a slot, with a value for every payload."""
    tag = find_tag(slot.path, joined.separator)
    absent = _ABSENT_VALUE if slot.listed else None
    if tag is None:
        return [absent] * joined.count
    index = slot.path.steps[0].index
    found = joined.find_values(tag)
    # Without payloads there is no first value to distinguish the two results.
    if not found:
        return []
    if isinstance(found[0], bytes):
        # Each payload has one value, so only the subscript 0 finds something.
        if index:
            return [absent] * joined.count
        column = infer_scalars(found, slot.text, joined.separator)
        return [ValueList((value,)) for value in column] if slot.listed else list(column)
    lists = found
    if index is not None:
        # A slice, because a subscript beyond the last value finds nothing and is no error.
        lists = [values[index : index + 1] for values in lists]
    # All values of the batch at once, so that the checks below run over one list; they are distributed again
    # afterwards.
    flat = infer_scalars([value for values in lists for value in values], slot.text, joined.separator)
    result: list[SlotValue] = []
    at = 0
    for values in lists:
        size = len(values)
        if size == 1 and not slot.listed:
            result.append(flat[at])
        else:
            result.append(ValueList(tuple(flat[at : at + size])) if size else absent)
        at += size
    return result


def build_text_column(joined: JoinedPayloads, path: Path) -> list[bytes | None]:
    """The text of the first value in every payload; None if absent or empty."""
    tag = find_tag(path, joined.separator)
    if tag is None:
        return [None] * joined.count
    index = path.steps[0].index
    found = joined.find_values(tag)
    if found and isinstance(found[0], bytes):
        if index:
            return [None] * joined.count
        return [value or None for value in found]
    at = index or 0
    firsts = [values[at : at + 1] for values in found]
    return [(values[0] or None) if values else None for values in firsts]  # type: ignore[misc]  # lists here


def infer_scalars(values: list[bytes], text: bool, separator: bytes) -> list[Scalar]:
    """The scalars of texts: a text with a numeric reading is a number, an empty one is NULL, all others are Strings.

    ``text``: numbers keep their text, unless it is just their decimal digits.
    """
    whole = b"".join(values)
    filled = all(values)
    # Only digits, and few enough for an Integer: the most common numbers are converted by one C loop.
    if filled and whole.isdigit() and (longest := max(map(len, values))) <= MAX_INTEGER_DIGITS:
        # A leading zero, or digits beyond the precision of a double, are lost in the number, so its text must be kept.
        if text and (
            longest > _MAX_EXACT_DIGITS or any(value[0] == _ZERO_DIGIT and len(value) > 1 for value in values)
        ):
            return [make_untyped_number(int(value), value) for value in values]
        return list(map(int, values))
    if filled and not whole.translate(None, _NUMBER_BYTES):
        doubles = _infer_doubles(values, whole)
        if doubles is not None:
            return list(map(Number, doubles, values, repeat(False))) if text else doubles  # type: ignore[return-value]  # floats
    texts = _infer_texts(values, separator, filled)
    # No value begins like a number, so there are no numbers.
    if {value[:1] for value in values}.isdisjoint(_NUMBER_START_BYTES):
        return texts
    return [
        string if raw[:1] not in _NUMBER_START_BYTES else _infer_scalar(raw, string, text)
        for raw, string in zip(values, texts, strict=True)
    ]


def _infer_scalar(raw: bytes, string: Scalar, text: bool) -> Scalar:
    reading = parse_number(raw)
    if reading is None:
        return string
    return make_untyped_number(reading, raw) if text else reading


def _infer_doubles(values: list[bytes], whole: bytes) -> list[float] | None:
    """Return Doubles, if all texts are numbers; ``whole`` is all of them and has only the bytes of numbers.

    For such texts ``float`` accepts exactly the numbers. No number has two points, so if there are as many points as
    texts, and all are accepted, each has one.
    """
    if whole.count(b".") != len(values):
        return None
    try:
        return list(map(float, values))
    except ValueError:
        return None


def _infer_texts(values: list[bytes], separator: bytes, filled: bool) -> list[Scalar]:
    """Return Strings, as text if they are UTF-8; none of them contains the separator."""
    if not values:
        return []
    try:
        # Decoded all at once and split again: no value contains the separator, so the pieces are the values.
        texts: list[Scalar] = list(separator.join(values).decode().split(separator.decode()))
    except UnicodeDecodeError:
        return [value or None for value in values]
    return texts if filled else [text or None for text in texts]

"""The kinds of values that the element table names, each with its reader and its rule.

A reader raises ValueError, or :class:`Wrong` if another rule than the kind's own is broken. Kinds that need the
expression language or the regular expression library are in :mod:`sowctl.config.expression_texts`, which only
``validate`` uses. Ruled by ``sow-config(5)``, units and values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from sowctl.config.elements.element import Element
from sowctl.errors import UsageError
from sowctl.values.paths import Path, parse_path
from sowctl.values.units import parse_count, parse_interval, parse_size, parse_switch

CONTAINER_KINDS = frozenset({"section", "open", "opaque", "mixed"})
_ADDRESS_PATTERN = r"(?:(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/]+):)?(?P<port>[0-9]{1,5})"
_LEVELS = ["none", "developer", "trace", "stats", "info", "warning", "error", "critical", "emergency", "debug"]
_TLS_VERSIONS = ("SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_STRUCT_PATTERN = r"/[^\s=/]+(?:/[^\s=/]+)*\s*=\s*(?P<order>[@=<>]?)(?P<count>[0-9]*)(?P<code>[xcbB?hHiIlLqQnNfdsSp])"
_EXCLUDABLE_CHECKS = ("txlog", "replicate", "sow", "cascade", "keys", "replicate_filter", "queue_passthrough")
_UNIT_PATTERN = r"(?ai)[kmgt](?=i?b?$)"


class Wrong(ValueError):
    """A value that breaks another rule than its kind's."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


class ValueKind(Struct, frozen=True):
    """The rule that an invalid value breaks, and the reader of values."""

    rule: str
    read: Callable[[str], Any]


def _read_text(text: str) -> str:
    if not text:
        raise ValueError("a value is required")
    return text


def _read_field(text: str) -> Path:
    try:
        return parse_path(text)
    except UsageError as error:
        raise ValueError(f"{text!r} is not a field identifier (must start with /)") from error


def read_expiration(text: str) -> tuple[str, int]:
    """``disabled``, ``enabled`` or an interval: the kind of expiration and nanoseconds. Raises Wrong, ValueError."""
    word = text.lower()
    if word in ("enabled", "disabled"):
        return word, 0
    if text and not text[0].isdigit() and text[0] not in "+-.":
        raise Wrong("S025", f"{text!r} is not an interval, enabled or disabled")
    return "interval", parse_interval(text)


def _read_queue_expiration(text: str) -> int:
    if text and not text[0].isdigit() and text[0] not in "+-.":
        raise Wrong("S025", f"{text!r} is not an interval; a queue requires an interval")
    return parse_interval(text)


def _build_recovery_reader(words: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() in words:
            return text.lower()
        from sowctl.identity.bookmarks import parse_bookmark
        from sowctl.values.times import parse_time

        # Whether a time is readable does not depend on the clock, so any clock will do.
        for parse in (parse_bookmark, lambda word: parse_time(word, lambda: 0)):
            try:
                parse(text)
            except UsageError:
                continue
            return text
        raise ValueError(f"{text!r} is not a recovery point ({', '.join(words)}, a timestamp or a bookmark)")

    return read


def _read_address(text: str) -> int:
    # The last colon separates host and port; therefore an IPv6 address needs brackets.
    match = re.fullmatch(_ADDRESS_PATTERN, text)
    port = int(match["port"]) if match is not None else 0
    if not 1 <= port <= 65535:
        raise ValueError(f"{text!r} is not an address: port, host:port or [v6]:port, port 1-65535")
    return port


def _read_percent(text: str) -> float:
    match = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%?", text, re.ASCII)
    if match is None or float(match[1]) > 100:
        raise ValueError(f"{text!r} is not a percentage from 0% to 100%")
    return float(match[1])


def read_bytes(text: str) -> int:
    """A size in the units of the dialect, which has no ``MiB``. Raises ValueError."""
    size = parse_size(text)
    # The common reader of sizes also accepts ``MiB``, which the dialect does not have.
    if "i" in text.lower():
        raise ValueError(f"{text!r} is not a byte size (a number and KB, MB, GB or TB)")
    return size


def _read_byte(text: str) -> int:
    # Digits of other scripts count as digits in Python.
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 255):
        raise ValueError(f"{text!r} is not the decimal code of a byte, 0 to 255")
    return int(text)


def _read_octal(text: str) -> int:
    if re.fullmatch(r"[0-7]{3,4}", text) is None:
        raise ValueError(f"{text!r} is not an octal file mask")
    return int(text, 8)


def _read_levels(text: str) -> tuple[str, ...]:
    words = tuple(word.strip().lower() for word in text.split(","))
    for word in words:
        if word not in _LEVELS:
            # ``debug`` is accepted as another word for info, but not offered.
            raise ValueError(f"{word!r} is not a log level ({', '.join(_LEVELS[:-1])})")
    return words


def _read_version(text: str) -> tuple[int, ...]:
    if re.fullmatch(r"\d+(\.\d+){0,3}", text, re.ASCII) is None:
        raise ValueError(f"{text!r} is not a version such as 5.3.5")
    return tuple(int(part) for part in text.split("."))


def _check_tls(text: str) -> None:
    # Any white space: a list may continue in the next line, as every value may.
    for word in text.split():
        if word not in _TLS_VERSIONS:
            raise ValueError(f"{word!r} is not a protocol (a list separated by spaces of {', '.join(_TLS_VERSIONS)})")


def _check_struct(text: str) -> None:
    match = re.fullmatch(_STRUCT_PATTERN, text)
    if match is None:
        raise ValueError(f"{text!r} is not /name = [order][count]code with a code of xcbB?hHiIlLqQnNfdsSp")
    # Padding and texts have no other length.
    if match["code"] in "xsSp" and not match["count"]:
        raise ValueError(f"{text!r}: the code {match['code']} needs a count")


def _check_exclude(text: str) -> None:
    for word in (part.strip() for part in text.split(",")):
        if word in ("queue", "queue_underlying"):
            raise ValueError(f"{word!r} cannot be excluded")
        if word not in _EXCLUDABLE_CHECKS:
            raise ValueError(f"{word!r} is not one of {', '.join(_EXCLUDABLE_CHECKS)}")


def _check_every(text: str) -> None:
    from sowctl.config.schedule import parse_every

    parse_every(text)


def _check_usage(text: str) -> None:
    match = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%", text, re.ASCII)
    if match is None or float(match[1]) > 100:
        raise ValueError(f"{text!r} is not a percentage such as 90%")


VALUE_KINDS: dict[str, ValueKind] = {
    "string": ValueKind("S009", _read_text),
    "text": ValueKind("S009", str),
    "path": ValueKind("S009", _read_text),
    "field": ValueKind("S034", _read_field),
    "interval": ValueKind("S026", parse_interval),
    "bytes": ValueKind("S027", read_bytes),
    "count": ValueKind("S028", parse_count),
    "byte": ValueKind("S028", _read_byte),
    "switch": ValueKind("S029", parse_switch),
    "expiration": ValueKind("S026", read_expiration),
    "expiration:queue": ValueKind("S026", _read_queue_expiration),
    "recovery": ValueKind("S024", _build_recovery_reader(("epoch", "now"))),
    "recovery:queue": ValueKind("S024", _build_recovery_reader(("epoch", "now", "creation"))),
    "address": ValueKind("S011", _read_address),
    "percent": ValueKind("S068", _read_percent),
    "octal": ValueKind("S067", _read_octal),
    "level": ValueKind("S061", _read_levels),
    "version": ValueKind("S009", _read_version),
    "tls": ValueKind("S015", _check_tls),
    "struct": ValueKind("S052", _check_struct),
    "exclude": ValueKind("S070", _check_exclude),
    "every": ValueKind("S058", _check_every),
    "usage": ValueKind("S059", _check_usage),
}


def read_value(row: Element, text: str) -> Any:
    """The value of a text by its row; texts of the deep kinds are returned unchanged. Raises ValueError, Wrong."""
    if row.kind == "enum":
        if text.lower() not in row.values:
            choice = (
                row.values[0] if len(row.values) == 1 else " or ".join((", ".join(row.values[:-1]), row.values[-1]))
            )
            raise ValueError(f"{text!r} is not {choice}")
        return text.lower()
    kind = VALUE_KINDS.get(row.kind)
    if kind is None:
        return text
    return kind.read(text)


def find_bounds_fault(row: Element, text: str) -> str | None:
    """Describe how the size of a readable value exceeds its bounds; None if it is within them."""
    kind = VALUE_KINDS.get(row.kind)
    if row.bounds is None or kind is None or _is_in_bounds(row, kind, text, kind.read(text)):
        return None
    limits = f"{row.low} to {row.high}" if row.low and row.high else f"at least {row.low}"
    return f"{text!r} is out of range ({limits if row.low else f'at most {row.high}'})"


def _is_in_bounds(row: Element, kind: ValueKind, text: str, value: Any) -> bool:
    """Sizes pass if they are within bounds in either base: no document says whether KB is 1000 or 1024."""
    if row.kind == "bytes" and _is_between(row, _read_decimal_size, _read_decimal_size(text)):
        return True
    return _is_between(row, kind.read, value)


def _is_between(row: Element, read: Callable[[str], Any], value: Any) -> bool:
    return (row.low is None or value >= read(row.low)) and (row.high is None or value <= read(row.high))


def _read_decimal_size(text: str) -> int:
    unit = re.search(_UNIT_PATTERN, text)
    power = " kmgt".index(unit[0].lower()) if unit else 0
    return int(parse_size(text) * 1000**power // 1024**power)


def find_value_rule(row: Element) -> str:
    """The rule that an invalid value of this row breaks."""
    if row.rule is not None:
        return row.rule
    kind = VALUE_KINDS.get(row.kind)
    return "S009" if kind is None else kind.rule

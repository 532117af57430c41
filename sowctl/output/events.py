"""Events of a subscription as NDJSON, one object per line (sow-events(5)), their payloads only, or lines for people.

Formatted by columns, many events with one ``write``: a busy subscriber prints several hundred thousand per second. A
payload of type json is included unchanged in its event; other types are their JSON view, and payloads that are no line
of JSON are base64.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from sowctl.output.display import clip_text, escape_json, escape_line, escape_surrogates
from sowctl.output.members import is_json_line
from sowctl.values.times import MAX_MICROS, MICROS_PER_SECOND, MIN_MICROS, format_time

_MIN_DATE_COLUMNS = 60
"""Width of a terminal in columns from which lines include the date."""
_MIN_KEY_COLUMNS = 100
"""Width from which a SOW key of 20 digits fits beside the message."""


class ShownEvents(Protocol):
    """Events of one command about one topic, by columns; see ``engine.subscriptions.events``."""

    @property
    def command(self) -> str: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def message_type(self) -> str | None: ...
    @property
    def view(self) -> Callable[[bytes], bytes]: ...
    @property
    def names(self) -> Sequence[str | None]: ...
    @property
    def txids(self) -> Sequence[int]: ...
    @property
    def times(self) -> Sequence[int]: ...
    @property
    def payloads(self) -> Sequence[bytes]: ...
    @property
    def publishers(self) -> Sequence[int] | None: ...
    @property
    def sequences(self) -> Sequence[int] | None: ...
    @property
    def correlations(self) -> Sequence[str | None] | None: ...
    @property
    def logical(self) -> Sequence[str] | None: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def query_id(self) -> str | None: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def sound(self) -> bool: ...
    @property
    def unknown(self) -> bool: ...


class ShownSign(Protocol):
    """An event without a record."""

    @property
    def command(self) -> str: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def bookmark(self) -> str | None: ...
    @property
    def txid(self) -> int | None: ...
    @property
    def timestamp(self) -> int | None: ...
    @property
    def query_id(self) -> str | None: ...


class EventLines:
    """Formats the lines. ``terminal``: for display, so control characters are escaped."""

    def __init__(self, *, data_only: bool = False, terminal: bool = False) -> None:
        self._data_only = data_only
        self._terminal = terminal
        self._second = -1
        self._prefix = ""

    def format_sign(self, sign: ShownSign) -> bytes:
        """An event without a record; empty if only payloads are requested."""
        if self._data_only:
            return b""
        at = sign.timestamp
        members = {
            "command": sign.command,
            "topic": sign.topic,
            "query_id": sign.query_id,
            "bookmark": sign.bookmark,
            "txid": sign.txid,
            "timestamp": None if at is None else format_time(at),
        }
        return self._escape_text(
            _encode_json({name: value for name, value in members.items() if value is not None}) + b"\n"
        )

    def format_events(self, events: ShownEvents) -> bytes:
        """Events with records."""
        if events.unknown:
            # Only the keys of the records are known.
            bare = () if self._data_only else self._format_whole(events, [b""] * len(events.payloads))
            return self._escape_text(b"".join(bare))
        data, sound = self._format_data(events)
        if self._data_only:
            return self._escape_text(b"\n".join(data) + b"\n") if data else b""
        if events.correlations is None and events.logical is None and events.publishers is not None:
            return self._escape_text(self._format_plain(events, data, sound=sound))
        return self._escape_text(b"".join(self._format_whole(events, [b'":' + one for one in data] if sound else data)))

    def _format_plain(self, events: ShownEvents, data: Sequence[bytes], *, sound: bool) -> bytes:
        """The usual events: with a bookmark each, and without optional members."""
        assert events.publishers is not None
        assert events.sequences is not None
        # A % in a name is no placeholder.
        front = self._format_front(events, events.topic).replace(b"%", b"%%")
        reason = b"" if events.reason is None else b',"reason":' + _encode_json(events.reason)
        end = b',"txid":%d,"timestamp":"%b"' + reason + (b',"data":%b}\n' if sound else b',"data%b}\n')
        keys, times = _format_keys(events.names), self._format_times(events.times)
        if len(set(events.publishers)) == 1:
            # Usually there is one publisher: its part of the bookmark is constant text.
            form = front + b'"sow_key":%b,"bookmark":"' + b"%d|" % events.publishers[0] + b'%d|"' + end
            rows = zip(keys, events.sequences, events.txids, times, data, strict=True)
            return b"".join([form % row for row in rows])
        form = front + b'"sow_key":%b,"bookmark":"%d|%d|"' + end
        mixed = zip(keys, events.publishers, events.sequences, events.txids, times, data, strict=True)
        return b"".join([form % one for one in mixed])

    def _format_whole(self, events: ShownEvents, data: Sequence[bytes]) -> Iterator[bytes]:
        for place, payload in enumerate(data):
            topic = events.topic if events.logical is None else events.logical[place]
            parts = [self._format_front(events, topic), b'"sow_key":' + _format_key(events.names[place])]
            if events.publishers is not None and events.sequences is not None:
                parts.append(b',"bookmark":"%d|%d|"' % (events.publishers[place], events.sequences[place]))
            elif events.command != "sow":
                parts.append(b',"bookmark":null')
            if events.txids[place]:
                parts.append(b',"txid":%d' % events.txids[place])
            parts.append(b',"timestamp":"%b"' % self._format_time(events.times[place]))
            if events.correlations is not None and events.correlations[place] is not None:
                parts.append(b',"correlation_id":' + _encode_json(events.correlations[place]))
            if events.reason is not None:
                parts.append(b',"reason":' + _encode_json(events.reason))
            parts.append(b',"data' + payload + b"}\n" if payload else b"}\n")
            yield b"".join(parts)

    @staticmethod
    def _format_front(events: ShownEvents, topic: str | None) -> bytes:
        front = b'{"command":%b,"topic":%b,' % (_encode_json(events.command), _encode_json(topic))
        if events.query_id is not None:
            front += b'"query_id":%b,' % _encode_json(events.query_id)
        if events.batch_size is not None:
            front += b'"batch_size":%d,' % events.batch_size
        return front

    def _format_data(self, events: ShownEvents) -> tuple[Sequence[bytes], bool]:
        """Lines of JSON, and True; or, if some payloads are no lines of JSON, the texts after ``"data`` and False."""
        if events.message_type != "json":
            return list(map(events.view, events.payloads)), True
        whole = b"".join(events.payloads)
        # A topic with key fields has parsed every message; others accept any bytes.
        if events.sound and b"\n" not in whole and b"\r" not in whole:
            return events.payloads, True
        return [self._format_odd_payload(one, events.view) for one in events.payloads], self._data_only

    def _format_odd_payload(self, payload: bytes, view: Callable[[bytes], bytes]) -> bytes:
        """A payload that may be no line of JSON."""
        from base64 import b64encode

        line = view(payload) if b"\n" in payload or b"\r" in payload else payload
        if self._data_only:
            return line
        return b'":' + line if is_json_line(line) else b'_base64":"' + b64encode(payload) + b'"'

    def _format_times(self, times: Sequence[int]) -> Iterable[bytes]:
        """Texts of times; each distinct time is formatted once: messages of one batch have few."""
        texts = {at: self._format_time(at) for at in set(times)}
        return map(texts.__getitem__, times)

    def _format_time(self, at: int) -> bytes:
        # Thousands of messages arrive within one second, whose text is formatted once.
        second, micros = divmod(min(max(at, MIN_MICROS), MAX_MICROS), MICROS_PER_SECOND)
        if second != self._second:
            year, month, day, hour, minute, seconds, *_ = time.gmtime(second)
            self._second = second
            self._prefix = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{seconds:02}."
        return b"%b%06dZ" % (self._prefix.encode(), micros)

    def _escape_text(self, text: bytes) -> bytes:
        return escape_json(text) if self._terminal else text


class PersonLines:
    """Formats a line of text for each message: time, event, topic if there are several, SOW key, payload.

    ``columns`` is the width of the terminal; payloads are cut, and groups and their ends are not shown. Below 100
    columns a key is shown only if there is no payload.
    """

    def __init__(self, columns: int, *, several: bool) -> None:
        self._columns, self._several = columns, several
        # On a narrow terminal the date and the SOW key would leave no room for the message.
        self._shows_key = columns >= _MIN_KEY_COLUMNS
        self._time_of = slice(0, 23) if columns >= _MIN_DATE_COLUMNS else slice(11, 19)

    def format_sign(self, sign: ShownSign) -> bytes:
        """An event without a record; empty for the beginning and the end of a group."""
        if sign.command in ("group_begin", "group_end"):
            return b""
        time = "" if sign.timestamp is None else format_time(sign.timestamp)[self._time_of]
        return self._format_line(time, sign.command, sign.topic if self._several else None, None, "")

    def format_events(self, events: ShownEvents) -> bytes:
        """Events with records."""
        lines = []
        for place, payload in enumerate(events.payloads):
            topic = events.topic if events.logical is None else events.logical[place]
            happened = events.command if events.reason is None else f"{events.command} ({events.reason})"
            shown = payload if events.message_type == "json" or events.unknown else events.view(payload)
            text = escape_line(shown)
            time = format_time(events.times[place])[self._time_of]
            lines.append(self._format_line(time, happened, topic if self._several else None, events.names[place], text))
        return b"".join(lines)

    def _format_line(self, time: str, happened: str, topic: str | None, key: str | None, text: str) -> bytes:
        key = key if self._shows_key or not text else None
        parts = [time, f"{happened:7}", escape_line(topic or ""), escape_line(key or "")]
        line = "  ".join([*(part for part in parts if part), text]).rstrip()
        return clip_text(line, self._columns).encode() + b"\n"


def _format_keys(names: Sequence[str | None]) -> Iterable[bytes]:
    """SOW keys as JSON; the usual ones, which are decimals, all at once."""
    if None not in names and "".join(names).encode().isdigit():  # type: ignore[arg-type]
        return ('"' + '" "'.join(names) + '"').encode().split(b" ")  # type: ignore[arg-type]
    return map(_format_key, names)


def _format_key(name: str | None) -> bytes:
    if name is None:
        return b"null"
    # SOW keys are digits, keys of publishers letters and digits: JSON escapes no such character.
    return b'"%b"' % name.encode() if name.isalnum() else _encode_json(name)


def _encode_json(value: object) -> bytes:
    return escape_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()

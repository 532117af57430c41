"""An independent model of a subscriber: a fold of the printed lines, without code of the program.

It is based only on sow-events(5). :class:`Folded` holds the records of the events, and records every event that a
subscriber could not interpret; its records are compared with the output of a fresh query.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sowctl.engine.subscriptions.events import Delivery, MarkerEvent
from sowctl.output.events import EventLines

Row = dict[str, Any]


def lines_of(deliveries: Iterable[Delivery]) -> Iterator[bytes]:
    """Yield the lines that the command line prints."""
    lines = EventLines(data_only=False, terminal=False)
    for delivery in deliveries:
        text = lines.format_sign(delivery) if isinstance(delivery, MarkerEvent) else lines.format_events(delivery)
        yield from filter(None, bytes(text).split(b"\n"))


class Folded:
    """Records by topic and SOW key. ``oof``: the subscriber receives out-of-focus events.

    ``partial``: the records of groups were limited, so some out-of-focus events may be missing. ``told``: the records
    that events were about; the caller may clear it.
    """

    def __init__(self, *, oof: bool, partial: bool = False) -> None:
        self.oof, self.partial = oof, partial
        self.held: dict[tuple[str, str], Row] = {}
        self.wrong: list[str] = []
        self.told: set[tuple[str, str]] = set()
        self.count = 0
        self._open: dict[str, set[tuple[str, str]]] = {}
        self._txid = 0
        self._instant = 0

    def take(self, lines: Iterable[bytes | str]) -> None:
        """Process the printed lines, in order."""
        for line in lines:
            self._one(json.loads(line))

    def _one(self, event: Mapping[str, Any]) -> None:
        self.count += 1
        command, topic = event["command"], event.get("topic")
        if command == "group_begin":
            self._open[topic] = set()
            self._at(event)
            self._instant = event.get("txid") or self._instant
        elif command == "group_end":
            if topic not in self._open:
                self.wrong.append(f"a group ends that was not begun: {event}")
            self._open.pop(topic, None)
        elif command in ("sow", "publish", "delta_publish", "oof"):
            self._record(command, (topic, event["sow_key"]), event)
        elif command not in ("progress", "completed"):
            self.wrong.append(f"unknown: {event}")

    def _record(self, command: str, key: tuple[str, str], event: Mapping[str, Any]) -> None:
        data, held = event["data"], self.held.get(key)
        self.told.add(key)
        if command == "sow":
            if held is not None and self.oof:
                self.wrong.append(f"told again: {event}, held was {held}")
            self.held[key] = data
            return
        if command != "oof" or event.get("bookmark"):
            self._at(event)
        if command == "publish":
            self.held[key] = data
        elif command == "delta_publish":
            if held is None:
                self.wrong.append(f"a delta to nothing: {event}")
            self.held[key] = merged(held or {}, data)
        elif held is None:
            if not self.partial:
                self.wrong.append(f"left, and was not there: {event}")
        else:
            del self.held[key]

    def _at(self, event: Mapping[str, Any]) -> None:
        """Check that positions never decrease."""
        txid = event.get("txid") if event.get("bookmark") else None
        if txid is not None and txid < self._txid:
            self.wrong.append(f"behind txid {self._txid}: {event}")
        self._txid = max(self._txid, txid or 0)

    def forget_others(self, topic_names: Iterable[str]) -> None:
        """Drop the records of topics that are no longer subscribed to."""
        kept = set(topic_names)
        self.held = {key: row for key, row in self.held.items() if key[0] in kept}

    def differences(self, expected: Mapping[tuple[str, str], Row]) -> list[str]:
        """Return how the records differ from the query; without oof, records out of focus may remain."""
        found = [
            f"missing or other: {key} is {row}, held {self.held.get(key)}"
            for key, row in expected.items()
            if self.held.get(key) != row
        ]
        if self.oof:
            found += [f"held on: {key} {row}" for key, row in self.held.items() if key not in expected]
        return found


def merged(base: Any, change: Any) -> Any:
    """Apply a delta to the data that it changes: objects member by member, everything else as a whole."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    return base | {name: merged(base.get(name), value) for name, value in change.items()}

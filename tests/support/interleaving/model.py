"""The allowed results: per owner of records, the contents after some number of its messages.

Publishers have their own ids, so that each of them can be judged by itself whatever the others did; at most one of them
also continues with the records of the template. Within one log (the journal, or a store without one) the messages of a
publisher exist up to some end of a group, including all acknowledged ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.verbs import ALONE, JOURNAL, TOPICS, Book, Event, State, log_of

TEMPLATE = 1000
"""Ids below this belong to the template; worker n has those from ``1000 * (n + 1)`` on."""
LOGS = (JOURNAL, *ALONE)


class Owner:
    """A publisher's messages, or the template's."""

    def __init__(self, number: int, book: Book | None) -> None:
        """``book``: that of the template, if this owner continues with it."""
        self.number = number
        self.book = book.copy() if book is not None else Book()
        self.begins = book is not None

    def has(self, number: int) -> bool:
        return (self.begins and number < TEMPLATE) or (number // TEMPLATE == self.number + 1)

    def part(self, found: State, log: str) -> State:
        """Return this owner's part of the contents of a log's topics."""
        return {
            topic: {key: row for key, row in found.get(topic, {}).items() if self.has(key)}
            for topic in TOPICS
            if log_of(topic) == log
        }

    def counts(self, found: State, log: str, now: int, topic_names: Iterable[str] | None = None) -> list[int]:
        """Return the numbers of messages after which the contents (of ``topic_names``) are as found."""
        part = self.part(found, log)
        wanted = set(part) if topic_names is None else set(topic_names)
        counts = []
        for count in sorted(self.book.ends[log]):
            state = self.book.state(log, count, now)
            if all(state[topic] == part[topic] for topic in wanted):
                counts.append(count)
        return counts

    def whole(self, found: State, now: int) -> str | None:
        """Return the fault in contents that must have every message, None if there is none."""
        for log in LOGS:
            if len(self.book.events[log]) not in self.counts(found, log, now):
                return f"{log}: not all of owner {self.number}: {self._wrong(found, log, now)}"
        return None

    def judge(self, found: State, now: int, promised: dict[str, int]) -> str | None:
        """Return the fault in contents with at least ``promised`` messages per log; None if there is none."""
        for log in LOGS:
            if not [count for count in self.counts(found, log, now) if count >= promised[log]]:
                return f"{log}: {promised[log]} promised to owner {self.number}: {self._wrong(found, log, now)}"
        return None

    def _wrong(self, found: State, log: str, now: int) -> str:
        part, state = self.part(found, log), self.book.state(log, len(self.book.events[log]), now)
        rows = [
            f"{topic}/{key}: published {state[topic].get(key)}, found {rows.get(key)}"
            for topic, rows in part.items()
            for key in sorted(state[topic].keys() | rows.keys())
            if state[topic].get(key) != rows.get(key)
        ]
        return "; ".join(rows[:4]) or "no group ends there"


def groups_of(events: list[Event], size: int) -> list[list[Event]]:
    return [events[start : start + size] for start in range(0, len(events), size)]

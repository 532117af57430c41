"""Who publishes: a client's identity and the sequence numbers that tell a repeated message from a new one
(``semantics`` 6.4)."""

from __future__ import annotations

from collections.abc import Callable

from sowctl.errors import UsageError
from sowctl.identity.hashes import client_hash


class Publisher:
    """A named client. ``highest`` asks for the highest sequence that journal or store know of it.

    With ``first`` the messages of the input are numbered from there on, and one at or below the highest is a duplicate;
    without it they go on behind the highest. Numbers that messages bring themselves win.
    """

    def __init__(self, client: str, first: int | None, highest: Callable[[int], int]) -> None:
        if first is not None and first < 1:
            raise UsageError("SOW-PUB-012", f"sequence {first} is not a number from 1 on")
        self.identity = client_hash(client), client
        self._first = first
        self._highest = highest
        self._base = 0
        self._numbers: dict[int, int] = {}

    def number(self, count: int, own: list[int | None] | None) -> None:
        """Number the ``count`` messages of the next batch; ``own`` are the numbers that they bring."""
        self._numbers = {}
        for place in range(count):
            given = own[place] if own is not None else None
            if given is not None:
                self._numbers[place] = given
            elif self._first is not None:
                self._numbers[place] = self._first + self._base + place
        self._base += count

    def admit(self, places: list[int]) -> set[int]:
        """Number those of the batch's ``places`` (ascending) that have none; returns the places of duplicates."""
        last = self._highest(self.identity[0])
        duplicates = set()
        for place in places:
            number = self._numbers.setdefault(place, last + 1)
            if number <= last:
                duplicates.add(place)
            else:
                last = number
        return duplicates

    def sequences(self, places: list[int]) -> list[int]:
        """The numbers of messages, after :meth:`admit`."""
        return [self._numbers[place] for place in places]

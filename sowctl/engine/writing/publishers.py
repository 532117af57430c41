"""Publishers: a client's identity and the sequence numbers that detect repeated messages (``behaviour`` 6.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sowctl.engine.writing.outcome import is_duplicate
from sowctl.errors import LimitError, UsageError
from sowctl.identity.hashes import hash_client_name
from sowctl.values.units import MAX_U64


class Publisher:
    """A named client. ``highest`` asks for the highest sequence that journal or store know of it.

    With ``first`` the messages of the input are numbered from there on, and one at or below the highest is a duplicate;
    without it they go on behind the highest. Numbers that messages bring themselves win. ``dumped``: they are entries
    of a journal, where those that were committed together may have one number, and some may have none. Not
    ``numbered``: the name is recorded and nothing else, so that no message is a duplicate. ``is_partition``: the
    numbers are the offsets of a partition plus 1.
    """

    def __init__(
        self,
        client: str,
        first: int | None,
        highest: Callable[[int], int],
        *,
        dumped: bool = False,
        numbered: bool = True,
        is_partition: bool = False,
    ) -> None:
        if first is not None and not 1 <= first <= MAX_U64:
            raise UsageError("SOW-PUB-012", f"sequence {first} must be a number from 1 to {MAX_U64}")
        try:
            self.identity = hash_client_name(client), client
        except UnicodeEncodeError:
            raise UsageError("SOW-PUB-026", f"the client name is not UTF-8: {client!r}") from None
        self._first = first
        self._highest = highest
        self._base = 0
        self._numbers: dict[int, int] = {}
        self._dumped = dumped
        self._numbered = numbered
        self.is_partition = is_partition
        self._admitted = 0
        """The last number that was no duplicate."""
        self._latest = 0
        self.overtaken: tuple[int, int] | None = None
        """The first number that was a duplicate although a higher one came before it in this run, and that one: its
        message may never have been published."""

    def number_batch(self, count: int, own: list[int | None] | None) -> None:
        """Number the ``count`` messages of the next batch; ``own`` are the numbers that they bring.

        Raises LimitError ``SOW-PUB-029`` where the numbers end before the messages do.
        """
        self._numbers = {}
        for place in range(count):
            given = own[place] if own is not None else None
            # A message's own number wins: an envelope that is published again must be told from a new one.
            if given is not None:
                self._numbers[place] = given
            elif self._first is not None:
                self._numbers[place] = self._check_sequence_bound(self._first + self._base + place)
            elif self._dumped or not self._numbered:
                self._numbers[place] = 0
        self._base += count

    def admit_messages(self, logs: list[tuple[list[int], int]]) -> set[int]:
        """Number those messages of the batch that have no number; returns the places of duplicates.

        ``logs`` are the places that go to the journal, and to each store without one, with the highest number that is
        known there: a run that died between the two is repeated, and only what was written is a duplicate. Raises
        LimitError ``SOW-PUB-029`` as :meth:`number_batch` does.
        """
        if not self._numbered:
            return set()
        last = self._highest(self.identity[0])
        for place in sorted(place for places, _ in logs for place in places):
            # Numbers are given in input order over all topics, so they rise with the txids. An entry of a journal that
            # has none stays without.
            last = max(last, self._check_sequence_bound(self._numbers.setdefault(place, last + 1)))
        duplicates = set()
        for places, highest in logs:
            for place in sorted(places):
                number = self._numbers[place]
                if not number and self._dumped:
                    continue
                if is_duplicate(number, highest) and not (self._dumped and number == self._admitted):
                    duplicates.add(place)
                else:
                    self._admitted = number
                # Within a batch, too: the second of two messages with one number is a duplicate of the first.
                highest = max(highest, number)
        if self.is_partition and self.overtaken is None:
            self._find_overtaken(sorted(place for places, _ in logs for place in places), duplicates)
        return duplicates

    def _find_overtaken(self, places: Sequence[int], duplicates: set[int]) -> None:
        for place in places:
            number = self._numbers[place]
            if number < self._latest and place in duplicates:
                self.overtaken = number, self._latest
                return
            self._latest = max(self._latest, number)

    def _check_sequence_bound(self, number: int) -> int:
        """A number that fits into 64 bits, as journals and stores hold it."""
        if number <= MAX_U64:
            return number
        hint = "use another --client: a new name starts at 1"
        words = f"the sequence numbers of client {self.identity[1]!r} are used up: the maximum is {MAX_U64}"
        raise LimitError("SOW-PUB-029", words, hint=hint)

    def list_sequences(self, places: Sequence[int]) -> list[int]:
        """The numbers of messages, after :meth:`admit_messages`."""
        return [self._numbers[place] for place in places]

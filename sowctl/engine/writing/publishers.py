"""Publishers: a client's identity and the sequence numbers that detect repeated messages (``behaviour`` 6.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sowctl.engine.writing.outcome import is_duplicate
from sowctl.errors import LimitError, UsageError
from sowctl.identity.hashes import hash_client_name
from sowctl.values.units import MAX_U64


class Publisher:
    """A named client. ``highest`` returns the highest sequence number of a client hash in the journal or store.

    With ``first``, the messages of the input are numbered from there, and a number at or below the highest is a
    duplicate; without it, numbers continue after the highest. Messages' own numbers take precedence. ``dumped``: the
    messages are journal entries, where entries committed together may share a number, and some may have none.
    ``numbered`` False: only the name is recorded, and no message is a duplicate. ``is_partition``: the numbers are the
    offsets of a partition plus 1.
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
        """The last number that was not a duplicate."""
        self._latest = 0
        self.overtaken: tuple[int, int] | None = None
        """The first duplicate that follows a higher number of this run, and that higher number: the message of the
        duplicate may never have been published."""

    def number_batch(self, count: int, own: list[int | None] | None) -> None:
        """Number the ``count`` messages of the next batch; ``own`` are the messages' own numbers.

        Raises LimitError ``SOW-PUB-029`` if a number exceeds the maximum.
        """
        self._numbers = {}
        for place in range(count):
            given = own[place] if own is not None else None
            # A message's own number takes precedence: it shows whether an envelope is published again.
            if given is not None:
                self._numbers[place] = given
            elif self._first is not None:
                self._numbers[place] = self._check_sequence_bound(self._first + self._base + place)
            elif self._dumped or not self._numbered:
                self._numbers[place] = 0
        self._base += count

    def admit_messages(self, logs: list[tuple[list[int], int]]) -> set[int]:
        """Number the messages of the batch that have no number; return the places of duplicates.

        ``logs`` are the places that go to the journal, and to each store without a journal, each with the highest
        number recorded there: if a run that was killed between the two is repeated, only written messages are
        duplicates. Raises LimitError ``SOW-PUB-029`` as :meth:`number_batch`.
        """
        if not self._numbered:
            return set()
        last = self._highest(self.identity[0])
        for place in sorted(place for places, _ in logs for place in places):
            # Numbers are assigned in input order over all topics, so they rise with the txids. A journal entry without
            # a number keeps none.
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
                # Also within a batch: the second of two messages with the same number is a duplicate.
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
        """Return ``number`` if it fits into the 64 bits of journals and stores. Raises LimitError ``SOW-PUB-029``."""
        if number <= MAX_U64:
            return number
        hint = "use another --client: a new name starts at 1"
        words = f"the sequence numbers of client {self.identity[1]!r} are used up: the maximum is {MAX_U64}"
        raise LimitError("SOW-PUB-029", words, hint=hint)

    def list_sequences(self, places: Sequence[int]) -> list[int]:
        """Return the numbers of messages, after :meth:`admit_messages`."""
        return [self._numbers[place] for place in places]

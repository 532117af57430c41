"""Sharing messages among those who have room for them (``behaviour`` 5.4, FairnessModel).

Workers ask for messages, while the models speak of whom a message is sent to. So whoever asks is given what the model
would send to it, were all that have asked in vain served at the same moment; the rest stays for the others, who ask
again soon. Where there is enough for all, everybody gets what it has room for under any model.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from typing import Literal, TypeAlias

from msgspec import Struct

FairnessModel: TypeAlias = Literal["fast", "round-robin", "proportional"]


class LeaseCandidate(Struct, frozen=True):
    """A holder that may get messages: ``leased`` are in flight with it, of ``room`` that may be."""

    number: int
    leased: int
    room: int

    @property
    def free_room(self) -> int:
        """The number of messages that it may still get."""
        return max(0, self.room - self.leased)


class _LoadRatio:
    """The order under ``proportional``: leased by room, then who was found first."""

    __slots__ = ("leased", "rank", "room", "seat")

    def __init__(self, seat: LeaseCandidate, rank: int) -> None:
        self.seat, self.rank, self.leased, self.room = seat, rank, seat.leased, seat.room

    def __lt__(self, other: _LoadRatio) -> bool:
        # As products: quotients of floats would make ties of what is none.
        mine, others = self.leased * other.room, other.leased * self.room
        return (mine, self.rank) < (others, other.rank)


def compute_share(
    model: FairnessModel, seats: Sequence[LeaseCandidate], asking: int, available: int, turn: int = 0
) -> int:
    """Return how many of ``available`` messages the holder with the number ``asking`` gets.

    ``seats`` in the order in which they are found, that of who asks among them; ``turn`` is the number of the seat that
    was served last.
    """
    mine = next(seat for seat in seats if seat.number == asking)
    free = [seat for seat in seats if seat.free_room]
    if model == "fast" or available >= sum(seat.free_room for seat in free):
        return min(mine.free_room, available)
    if not mine.free_room:
        return 0
    if model == "round-robin":
        return _share_round_robin(free, asking, available, turn)
    queue = [_LoadRatio(seat, rank) for rank, seat in enumerate(free)]
    heapify(queue)
    got = 0
    # Fewer messages than free room: no seat fills up without the others, and the loop ends with the messages.
    for _ in range(available):
        lowest = queue[0]
        got += lowest.seat.number == asking
        lowest.leased += 1
        heapreplace(queue, lowest)
    return min(got, mine.free_room)


def _share_round_robin(free: Sequence[LeaseCandidate], asking: int, available: int, turn: int) -> int:
    after = [seat for seat in free if seat.number > turn] + [seat for seat in free if seat.number <= turn]
    left = {seat.number: seat.free_room for seat in after}
    got = 0
    while available:
        for seat in after:
            if available and left[seat.number]:
                left[seat.number] -= 1
                available -= 1
                got += seat.number == asking
    return got

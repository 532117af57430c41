"""Sharing messages among holders with free capacity (``behaviour`` 5.4, FairnessModel).

Workers ask for messages, whereas the models describe to whom a message is sent. So a holder that asks gets the messages
that the model would send to it if all holders that have asked in vain were served at the same moment; the rest stays
for the others, which ask again soon. If there are enough messages for all, everyone gets as many as it has capacity for
under any model.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from typing import Literal, TypeAlias

from msgspec import Struct

FairnessModel: TypeAlias = Literal["fast", "round-robin", "proportional"]


class LeaseCandidate(Struct, frozen=True):
    """A holder that may get messages: ``leased`` are in flight, at most ``room`` may be."""

    number: int
    leased: int
    room: int

    @property
    def free_room(self) -> int:
        """The number of messages that it may still get."""
        return max(0, self.room - self.leased)


class _LoadRatio:
    """Sort key under ``proportional``: the ratio leased to room, then the order of the seats."""

    __slots__ = ("leased", "rank", "room", "seat")

    def __init__(self, seat: LeaseCandidate, rank: int) -> None:
        self.seat, self.rank, self.leased, self.room = seat, rank, seat.leased, seat.room

    def __lt__(self, other: _LoadRatio) -> bool:
        # Compared as products: float quotients could turn different ratios into ties.
        mine, others = self.leased * other.room, other.leased * self.room
        return (mine, self.rank) < (others, other.rank)


def compute_share(
    model: FairnessModel, seats: Sequence[LeaseCandidate], asking: int, available: int, turn: int = 0
) -> int:
    """Return how many of ``available`` messages the holder with the number ``asking`` gets.

    ``seats`` includes the asking holder, in a fixed order; ``turn`` is the number of the seat that was served last.
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

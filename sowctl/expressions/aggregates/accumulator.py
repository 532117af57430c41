"""The operations of every accumulator: the state of one aggregate call in one group.

Rows add inputs with :meth:`Accumulator.add`, and can remove them again; columns add those of many groups with
:meth:`Accumulator.add_column`. States of one group add up (:meth:`Accumulator.merge`), and travel as lists for msgpack
(:meth:`Accumulator.dump`, :meth:`Accumulator.load`). Queries, views, aggregated subscriptions and Spark use the same
classes. Inputs are scalars without NULLs, because aggregates ignore NULLs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar

from sowctl.errors import DamageError
from sowctl.values.fields import Scalar, SlotValue

_T = TypeVar("_T")
Stamp: TypeAlias = tuple[Any, ...]
"""The place of a message in the order of updates. Messages that are removed one by one have unique stamps."""
InputReader: TypeAlias = Callable[[bool], Iterable[tuple[Stamp, Scalar]]]
"""The inputs that a group still has, with NULLs, in ascending order of stamps; descending for True."""
MAX_WAITING_INPUTS = 4096
"""Inputs that an accumulator holds before it adds them up. A bound of memory: adding many at once costs less."""


GroupSums: TypeAlias = tuple[tuple[int, int], tuple[int, int], tuple[int, int, int], tuple[int, int]]
"""Sums of the inputs of a group, as :meth:`sowctl.expressions.aggregates.sums.Sum.add_sums` takes them."""


class ColumnInputs(Protocol):
    """The inputs of an aggregate call as a column, with the group of each: what accumulators can ask of it.

    Places are arrays of row numbers, those of a group in the order of its messages.
    """

    def count_inputs(self) -> Sequence[int]:
        """Count the inputs of each group."""
        ...

    def compute_sums(self, *, squares: bool) -> Sequence[GroupSums] | None:
        """Add up the inputs of each group; None where they do not add up so, or where groups have few inputs."""
        ...

    def find_inputs(self) -> Any:
        """Return the places of all inputs."""
        ...

    def find_latest(self) -> Any:
        """Return the place of the latest input of each group."""
        ...

    def find_distinct(self) -> Any:
        """Return the places of the first of inputs that are equal in all respects; more where these cannot be told."""
        ...

    def find_extremes(self, *, greatest: bool) -> Any:
        """Return the places of what may be the least or greatest inputs of the groups."""
        ...

    def add_values(self, states: Sequence[Accumulator], places: Any) -> int:
        """Add the inputs at some places to the states of their groups; how many they are."""
        ...


class Accumulator(ABC):
    """State of an aggregate call for a group. ``ordered``: the result depends on the order of the inputs."""

    __slots__ = ()

    ordered: ClassVar[bool] = False

    @abstractmethod
    def add(self, values: Sequence[Scalar], stamps: Sequence[Stamp] = ()) -> None:
        """Add inputs; ``stamps``: one per input where the order counts. Of equal stamps the input added first is the
        first."""

    @classmethod
    def add_column(cls, states: Sequence[Self], inputs: ColumnInputs) -> int:
        """Add a column of inputs to the states of their groups: as many as the result depends on, so that none can be
        removed afterwards. How many inputs the states hold one by one."""
        return inputs.add_values(states, inputs.find_inputs())

    @abstractmethod
    def remove(self, values: Sequence[Scalar], stamps: Sequence[Stamp] = ()) -> None:
        """Remove inputs, with the stamps they were added with. Raises DamageError ``SOW-EXP-050``."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add the inputs of another state of the same call and group, which must not be used afterwards."""

    def compact(self) -> int:
        """Keep no more than the result depends on; nothing can be removed afterwards. How many inputs the state then
        holds one by one."""
        return 0

    @abstractmethod
    def dump(self) -> list[Any]:
        """Return the state as a list for msgpack."""

    @classmethod
    @abstractmethod
    def load(cls, state: Sequence[Any]) -> Self:
        """Build the accumulator of a state of :meth:`dump`."""

    @abstractmethod
    def compute_result(self, read_inputs: InputReader | None = None, delimiter: SlotValue = b",") -> Scalar:
        """Compute the result. ``read_inputs`` is called only where a removal left the order of inputs unknown;
        ``delimiter`` is for GROUP_CONCAT. Raises DamageError ``SOW-EXP-050``."""


def append_inputs(held: Sequence[_T], more: Sequence[_T]) -> Sequence[_T]:
    """Add inputs to those that are held: a tuple for the first ones, then a list of its own.

    Most groups of many have one message: the collector of cycles looks at no tuple of plain values, and no list is
    made.
    """
    if not held:
        return tuple(more)
    if isinstance(held, list):
        held += more
        return held
    return [*held, *more]


def build_damage_error(what: str) -> DamageError:
    """The error for a state from which more is removed than it holds: it belongs to other inputs."""
    return DamageError("SOW-EXP-050", f"an aggregate gives back {what} that it never got")


def iterate_no_rows(_: bool) -> Iterable[Any]:
    """Raise DamageError: for groups from which nothing is removed, so that their rows are never read."""
    raise build_damage_error("rows")

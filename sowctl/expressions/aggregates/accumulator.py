"""The operations of every accumulator: the state of one aggregate call in one group.

Inputs are added from rows (:meth:`Accumulator.add`), and can be removed again, or from columns, for many groups at once
(:meth:`Accumulator.add_column`). States of one group can be merged (:meth:`Accumulator.merge`), and serialized as
lists for msgpack (:meth:`Accumulator.dump`, :meth:`Accumulator.load`). Queries, views, aggregated subscriptions and
Spark use the same classes. Inputs are scalars without NULLs, because aggregates ignore NULLs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar

from sowctl.errors import DamageError
from sowctl.values.fields import Scalar, SlotValue

_T = TypeVar("_T")
Stamp: TypeAlias = tuple[Any, ...]
"""The position of a message in the order of updates. Messages that are removed individually have unique stamps."""
InputReader: TypeAlias = Callable[[bool], Iterable[tuple[Stamp, Scalar]]]
"""The remaining inputs of a group, with NULLs, in ascending order of stamps; in descending order for True."""
MAX_WAITING_INPUTS = 4096
"""Inputs that an accumulator buffers before it adds them up, to bound memory; adding many at once is cheaper."""


GroupSums: TypeAlias = tuple[tuple[int, int], tuple[int, int], tuple[int, int, int], tuple[int, int]]
"""Sums of the inputs of a group, as passed to :meth:`sowctl.expressions.aggregates.sums.Sum.add_sums`."""


class ColumnInputs(Protocol):
    """The inputs of an aggregate call as a column, with the group of each: the interface that accumulators use.

    Places are arrays of row numbers; those of a group are in the order of its messages.
    """

    def count_inputs(self) -> Sequence[int]:
        """Count the inputs of each group."""
        ...

    def compute_sums(self, *, squares: bool) -> Sequence[GroupSums] | None:
        """Add up the inputs of each group; None if this is not possible, or if groups have few inputs."""
        ...

    def find_inputs(self) -> Any:
        """Return the places of all inputs."""
        ...

    def find_latest(self) -> Any:
        """Return the place of the latest input of each group."""
        ...

    def find_distinct(self) -> Any:
        """Return the places of the first of inputs that are identical; more places if identity cannot be determined."""
        ...

    def find_extremes(self, *, greatest: bool) -> Any:
        """Return the places of the inputs that may be the least or greatest of their groups."""
        ...

    def add_values(self, states: Sequence[Accumulator], places: Any) -> int:
        """Add the inputs at some places to the states of their groups; return the number of these inputs."""
        ...


class Accumulator(ABC):
    """State of an aggregate call for a group. ``ordered``: the result depends on the order of the inputs."""

    __slots__ = ()

    ordered: ClassVar[bool] = False

    @abstractmethod
    def add(self, values: Sequence[Scalar], stamps: Sequence[Stamp] = ()) -> None:
        """Add inputs; ``stamps``: one per input if the order matters. Of equal stamps the input added first counts as
        the first."""

    @classmethod
    def add_column(cls, states: Sequence[Self], inputs: ColumnInputs) -> int:
        """Add a column of inputs to the states of their groups; only inputs that affect the result are kept, so none
        can be removed afterwards. Returns the number of inputs that the states hold individually."""
        return inputs.add_values(states, inputs.find_inputs())

    @abstractmethod
    def remove(self, values: Sequence[Scalar], stamps: Sequence[Stamp] = ()) -> None:
        """Remove inputs, with the stamps they were added with. Raises DamageError ``SOW-EXP-050``."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add the inputs of another state of the same call and group, which must not be used afterwards."""

    def compact(self) -> int:
        """Keep only what the result depends on; nothing can be removed afterwards. Returns the number of inputs that
        the state then holds individually."""
        return 0

    @abstractmethod
    def dump(self) -> list[Any]:
        """Return the state as a list for msgpack."""

    @classmethod
    @abstractmethod
    def load(cls, state: Sequence[Any]) -> Self:
        """Build an accumulator from a state of :meth:`dump`."""

    @abstractmethod
    def compute_result(self, read_inputs: InputReader | None = None, delimiter: SlotValue = b",") -> Scalar:
        """Compute the result. ``read_inputs`` is called only if a removal made the order of inputs unknown;
        ``delimiter`` is for GROUP_CONCAT. Raises DamageError ``SOW-EXP-050``."""


def append_inputs(held: Sequence[_T], more: Sequence[_T]) -> Sequence[_T]:
    """Append inputs to the held ones: a tuple for the first ones, then an own list.

    With many groups, most have one message: the garbage collector does not track a tuple of plain values, and no list
    is allocated.
    """
    if not held:
        return tuple(more)
    if isinstance(held, list):
        held += more
        return held
    return [*held, *more]


def build_damage_error(what: str) -> DamageError:
    """The error for a state from which more is removed than it holds: the state belongs to other inputs."""
    return DamageError("SOW-EXP-050", f"an aggregate gives back {what} that it never got")


def iterate_no_rows(_: bool) -> Iterable[Any]:
    """Raise DamageError: for groups without removals, whose rows are never read."""
    raise build_damage_error("rows")

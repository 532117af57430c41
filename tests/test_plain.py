"""Classes of plain values mean what the standard library's dataclasses mean."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl import plain


@plain.dataclass(frozen=True, slots=True)
class Ours:
    """A value."""

    name: str
    size: int = 3
    parts: list[int] = plain.field(default_factory=list, hash=False)
    place: str = plain.field(default="", compare=False, repr=False)

    kind = "value"

    @property
    def twice(self) -> int:
        """Two sizes."""
        return 2 * self.size


@dataclasses.dataclass(frozen=True, slots=True)
class Theirs:
    """The same value."""

    name: str
    size: int = 3
    parts: list[int] = dataclasses.field(default_factory=list, hash=False)
    place: str = dataclasses.field(default="", compare=False, repr=False)


@plain.dataclass(frozen=True, slots=True)
class Derived(Ours):
    """One field more."""

    more: int = 7


@plain.dataclass(slots=True)
class Counts:
    """May change."""

    topic: str
    seen: int = 0

    def __post_init__(self) -> None:
        self.seen += 1


@plain.dataclass(frozen=True, slots=True, eq=False)
class Alone:
    """Equal to itself only."""

    name: str


@plain.dataclass(frozen=True, slots=True)
class Odd:
    """Brings its own methods."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd)

    def __hash__(self) -> int:
        return 1


@plain.dataclass(frozen=True, slots=True)
class Nothing:
    """Without fields."""


ARGUMENTS = st.fixed_dictionaries(
    {"name": st.sampled_from("ab")},
    optional={
        "size": st.integers(1, 2),
        "parts": st.lists(st.integers(0, 1), max_size=1),
        "place": st.sampled_from("xy"),
    },
)


@given(ARGUMENTS, ARGUMENTS)
def test_values_are_made_shown_and_compared_as_dataclasses_are(one: dict[str, Any], other: dict[str, Any]) -> None:
    ours, theirs = Ours(**one), Theirs(**one)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert (ours == Ours(**other)) == (theirs == Theirs(**other))
    changed = dataclasses.replace(ours, size=9)
    assert dataclasses.asdict(changed) == dataclasses.asdict(dataclasses.replace(theirs, size=9))
    assert changed.twice == 18
    assert hash(ours) == hash(Ours(**{**one, "parts": [5]}))
    for same in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert same == ours
        assert same.place == ours.place


def test_the_first_values_and_all_others_are_alike() -> None:
    @plain.dataclass(frozen=True, slots=True)
    class Fresh(Ours):
        more: int = 7

        def __post_init__(self) -> None:
            made.append(self.more)

    made: list[int] = []
    first = Fresh.__init__
    for number in range(3 * plain.FEW):
        assert (Fresh.__init__ is first) == (number <= plain.FEW)
        value = Fresh("a", parts=[number], more=number)
        assert (value.name, value.size, value.parts, value.place, value.more) == ("a", 3, [number], "", number)
    assert made == list(range(3 * plain.FEW))


@given(st.sampled_from("ab"), st.sampled_from("ab"))
def test_equal_values_have_one_hash(one: str, other: str) -> None:
    first, second = KeyOf(one, "x"), KeyOf(other, "y")
    assert (first == second) == (one == other) == (len({first, second}) == 1)


@plain.dataclass(frozen=True, slots=True)
class KeyOf:
    """Compared by one field of two."""

    name: str
    place: str = plain.field(compare=False)


def test_frozen_values_do_not_change() -> None:
    value = Ours("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.name = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del value.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.other = 1  # type: ignore[attr-defined]
    assert value == Ours("a")
    assert not hasattr(value, "__dict__")


def test_others_change_and_have_no_hash() -> None:
    counts = Counts("t")
    assert counts.seen == 1
    counts.seen = 5
    assert counts == Counts("t", 4)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counts)
    with pytest.raises(AttributeError):
        counts.other = 1  # type: ignore[attr-defined]


def test_lists_are_not_shared() -> None:
    Ours("a").parts.append(1)
    assert Ours("a").parts == []


@pytest.mark.parametrize(
    "arguments", [((), {}), (("a", 1, [], "p", 5), {}), (("a",), {"name": "b"}), (("a",), {"x": 1})]
)
def test_wrong_arguments_are_refused(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    values, named = arguments
    for _ in range(2):
        with pytest.raises(TypeError, match=r"Ours\.__init__\(\)"):
            Ours(*values, **named)


def test_what_a_class_brings_is_kept() -> None:
    assert Odd("a") == Odd("b")
    assert hash(Odd("a")) == 1
    assert Alone("a") != Alone("a")
    assert len({Alone("a"), Alone("a")}) == 2
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert Ours.kind == "value"


def test_derived_classes_have_the_fields_of_both() -> None:
    value = Derived("a", more=1)
    assert (value.name, value.size, value.more) == ("a", 3, 1)
    assert value != Ours("a")
    match value:
        case Derived(name, 3):
            assert name == "a"
        case _:
            pytest.fail("it does not match by position")

"""Our named tuples mean what the standard library's mean."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any

import pytest

from sowctl.named import FEW, NamedTuple


class Ours(NamedTuple):
    """A value."""

    name: str
    size: int = 3
    parts: tuple[int, ...] = ()

    kind = "value"

    @property
    def twice(self) -> int:
        """Two sizes."""
        return 2 * self.size

    @classmethod
    def big(cls, name: str) -> Ours:
        """One made by a method."""
        return cls(name, 100)


class Theirs(typing.NamedTuple):
    """The same value."""

    name: str
    size: int = 3
    parts: tuple[int, ...] = ()


class Nothing(NamedTuple):
    """Without fields."""


GIVEN = [
    (("a",), {}),
    (("a", 1), {}),
    (("a",), {"parts": (1,)}),
    ((), {"size": 4, "name": "b"}),
]


@pytest.mark.parametrize(("values", "named"), GIVEN)
def test_values_are_those_of_the_library(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    for _ in range(2 * FEW):  # the constructor of the first values is another one
        ours, theirs = Ours(*values, **named), Theirs(*values, **named)
        assert ours == theirs == tuple(ours)
        assert hash(ours) == hash(theirs)
        assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
        assert ours._asdict() == theirs._asdict()
        assert ours._replace(size=9) == theirs._replace(size=9)
        assert (ours.name, ours.size, ours.parts) == tuple(theirs)
        assert ours.twice == 2 * theirs.size


def test_what_a_class_tells_of_itself() -> None:
    assert (Ours._fields, Ours._field_defaults, Ours.__match_args__) == (
        Theirs._fields,
        Theirs._field_defaults,
        Theirs.__match_args__,
    )
    assert Ours.__doc__ == "A value."
    assert Ours.kind == "value"
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert issubclass(Ours, tuple)
    assert type(Ours) is type


def test_other_ways_to_make_one() -> None:
    assert Ours.big("a") == ("a", 100, ())
    assert Ours._make(["a", 1, ()]) == Ours("a", 1)
    with pytest.raises(TypeError, match="Expected 3 arguments, got 1"):
        Ours._make(["a"])
    value = Ours("a", 5, (1,))
    for same in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert type(same) is Ours
        assert same == value
    assert Nothing() == ()
    assert repr(Nothing()) == "Nothing()"


def test_values_do_not_change_and_have_no_more() -> None:
    value = Ours("a")
    with pytest.raises(AttributeError):
        value.name = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        value.other = 1  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="other"):
        value._replace(other=1)
    assert not hasattr(value, "__dict__")


@pytest.mark.parametrize(("values", "named"), [((), {}), (("a", 1, (), 5), {}), (("a",), {"name": "b"})])
def test_wrong_arguments_are_refused(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match=r"Ours\.__new__\(\)"):
            Ours(*values, **named)


def test_they_match_by_position() -> None:
    match Ours("a", 4):
        case Ours(name, 4):
            assert name == "a"
        case _:
            pytest.fail("it does not match by position")

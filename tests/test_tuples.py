"""Our named tuples mean what the library's do."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl import tuples


class Ours(tuples.NamedTuple):
    """A place."""

    name: str
    size: int = 3
    parts: tuple[int, ...] = ()

    kind = "place"

    @property
    def twice(self) -> int:
        """Two sizes."""
        return 2 * self.size

    def named(self) -> str:
        return f"{self.name} of {super().__len__()}"

    @classmethod
    def small(cls) -> Ours:
        return cls("small", 1)


class Theirs(typing.NamedTuple):
    """A place."""

    name: str
    size: int = 3
    parts: tuple[int, ...] = ()

    kind = "place"

    @property
    def twice(self) -> int:
        """Two sizes."""
        return 2 * self.size

    @classmethod
    def small(cls) -> Theirs:
        return cls("small", 1)


class Derived(Ours):
    """One of a kind."""

    __slots__ = ()


class Empty(tuples.NamedTuple):
    """Nothing."""


class Counts(tuples.NamedTuple):
    seen: int
    kept: int


@pytest.fixture(params=[tuples.FEW, 0], ids=["first values", "later values"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuples, "FEW", request.param)


def fresh() -> Any:
    """The class anew: its constructor counts from the beginning."""

    class Fresh(tuples.NamedTuple):
        name: str
        size: int = 3
        parts: tuple[int, ...] = ()

    return Fresh


def made(kind: Any, values: tuple[Any, ...], named: dict[str, Any]) -> object:
    try:
        return tuple(kind(*values, **named))
    except TypeError as error:
        return str(error).partition(" ")[2]


ARGUMENTS = st.lists(st.integers(), max_size=4).map(tuple)
NAMED = st.dictionaries(st.sampled_from(["name", "size", "parts", "other"]), st.integers(), max_size=4)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("first", [False, True])
def test_arguments(first: bool) -> None:
    kind = fresh()

    @given(ARGUMENTS, NAMED)
    def check(values: tuple[Any, ...], named: dict[str, Any]) -> None:
        one = fresh() if first else kind
        assert made(one, values, named) == made(Theirs, values, named)

    check()


def test_what_a_class_has() -> None:
    ours, theirs = Ours("a", 4), Theirs("a", 4)
    assert (ours, hash(ours), ours < ("b",), ours[1], len(ours)) == (theirs, hash(theirs), True, 4, 3)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert (ours.name, ours.size, ours.parts, ours.twice, ours.kind) == ("a", 4, (), 8, "place")
    assert ours.named() == "a of 3"
    assert Ours.small() == Theirs.small()
    for name in ("_fields", "_field_defaults", "__match_args__", "__doc__", "__slots__"):
        assert getattr(Ours, name) == getattr(Theirs, name), name
    assert type(Ours) is type
    assert isinstance(ours, tuple)
    assert ours._asdict() == theirs._asdict()
    assert ours._replace(size=9) == theirs._replace(size=9)
    assert Ours._make(["a", 1, ()]) == Theirs._make(["a", 1, ()])
    assert (Empty(), Empty._fields, repr(Empty())) == ((), (), "Empty()")
    assert Counts._field_defaults == {}
    with pytest.raises(AttributeError):
        ours.size = 5  # type: ignore[misc]
    with pytest.raises(AttributeError):
        ours.other = 5  # type: ignore[attr-defined]
    match ours:
        case Ours(name, size):
            assert (name, size) == ("a", 4)
        case _:
            pytest.fail("no match")


def test_what_is_refused() -> None:
    for kind in (Ours, Theirs):
        with pytest.raises(ValueError, match="Got unexpected field names: \\['other'\\]"):
            kind("a")._replace(other=1)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="Expected 3 arguments, got 2"):
            kind._make(["a", 1])
    with pytest.raises(TypeError, match="non-default namedtuple field size cannot follow default field"):

        class Wrong(tuples.NamedTuple):
            name: str = ""
            size: int  # type: ignore[misc]


@pytest.mark.parametrize("value", [Ours("a", 4), Derived("b"), Empty(), Counts(1, 2)])
def test_copies(value: tuple[Any, ...]) -> None:
    for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value)), value[:]):
        assert other == value
    assert type(pickle.loads(pickle.dumps(value))) is type(value)
    assert type(copy.deepcopy(value)) is type(value)


def test_classes_derived_from_one() -> None:
    many = [Derived("x", size=number) for number in range(3 * tuples.FEW)]
    assert [one.size for one in many] == list(range(3 * tuples.FEW))
    assert {type(one) for one in many} == {Derived}
    assert [type(Ours("a")) for _ in range(3 * tuples.FEW)][-1] is Ours
    assert many[0].twice == 0


def test_making_many_is_as_fast_as_with_the_library() -> None:
    assert Counts.__new__.__code__.co_name == "first"  # type: ignore[attr-defined]
    for number in range(tuples.FEW + 1):
        Counts(number, 0)
    assert Counts.__new__.__code__.co_varnames == ("_cls", "seen", "kept")  # type: ignore[attr-defined]


def test_annotations_are_not_looked_at() -> None:
    """A class is made without compiling anything."""
    program = (
        "import builtins, sys\n"
        "from sowctl.tuples import NamedTuple\n"
        "def refuse(*_, **__): raise AssertionError\n"
        "builtins.compile = builtins.exec = builtins.eval = refuse\n"
        "class Place(NamedTuple):\n"
        "    name: 'unknown[name'\n"
        "    size: 'int' = 3\n"
        "print(Place('a'), Place.__annotations__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "Place(name='a', size=3) {'name': 'unknown[name', 'size': 'int'}\n"

"""Named tuples whose definition costs a start next to nothing: ``NamedTuple`` is used as :class:`typing.NamedTuple`.

The standard library writes and compiles the constructor of such a class as the class is defined, and looks at each
annotation: 60 to 160 us, and a short command defines dozens. Here a constructor is compiled when a class turns out to
have many values; from then on making one costs what it costs there. Values, their methods and their pickles are the
same.

For classes on the way of ``get``, ``query``, ``publish`` and ``eval``; for others the standard library's serve as well.
Type checkers see the library's own. Anybody may import this module; ruled by nothing but Python itself.
"""

from __future__ import annotations

from collections import _tuplegetter  # type: ignore[attr-defined]  # reads a field as fast as theirs are read
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

FEW = 16
"""Values of a class that are made without compiling its constructor, which takes as long as making 30 of them so."""


class _Values(tuple[Any, ...]):
    """What all classes of named tuples share."""

    __slots__ = ()
    if TYPE_CHECKING:
        _fields: tuple[str, ...]

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Any:
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **changes: Any) -> Any:
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return made

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{self.__class__.__name__}({shown})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


class _Maker(type):
    """The class of ``NamedTuple`` alone; what has that for a base becomes an ordinary class below ``_Values``."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, body)
        fields = tuple(body.get("__annotations__", ()))
        defaults = {field: body[field] for field in fields if field in body}
        body |= {field: _tuplegetter(place, "") for place, field in enumerate(fields)}
        body |= {"__slots__": (), "_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
        made: Any = type(name, (_Values, *bases[1:]), body)
        made.__new__ = staticmethod(_first_new(made))
        return made


def _first_new(made: Any) -> Any:
    """A constructor for the first values, which then compiles the real one and leaves its place to it."""
    left = FEW

    def first(cls: Any, *values: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        given = dict(zip(made._fields, values, strict=False))
        filled = made._field_defaults | given | named
        understood = len(values) <= len(made._fields) and named.keys().isdisjoint(given)
        if left >= 0 and understood and filled.keys() == set(made._fields):
            return tuple.__new__(cls, map(filled.__getitem__, made._fields))
        # the real one, which also words what is wrong with the arguments
        parameters = [f"{name}=_defaults[{name!r}]" if name in made._field_defaults else name for name in made._fields]
        known = {"_defaults": made._field_defaults, "_tuple": tuple.__new__}
        body = f"return _tuple(cls, ({''.join(name + ', ' for name in made._fields)}))"
        exec(f"def __new__({', '.join(('cls', *parameters))}): {body}", known)
        new: Any = known["__new__"]
        new.__qualname__ = f"{made.__qualname__}.__new__"
        made.__new__ = staticmethod(new)
        return new(cls, *values, **named)

    return first


if TYPE_CHECKING:
    from typing import NamedTuple
else:
    NamedTuple = _Maker("NamedTuple", (), {})

"""Named tuples whose definition costs a start next to nothing.

``typing.NamedTuple`` compiles every annotation and a constructor as a class is defined, 0.1 to 0.2 ms each, and a query
defines about fifty such classes: 6 ms of its start. Here annotations stay as they are written, and a constructor is
compiled when a class turns out to have many values. Apart from that they are what the library makes.

For all modules that commands import; type checkers see the library's own. Anybody may import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

try:
    from _collections import _tuplegetter  # type: ignore[import-not-found]
except ImportError:  # an interpreter that is not CPython
    from operator import itemgetter

    def _tuplegetter(place: int, doc: str | None) -> property:
        return property(itemgetter(place), doc=doc)


__all__ = ["NamedTuple"]

FEW = 16
"""Values of a class that are made without compiling its constructor, which takes as long as making 16 of them so."""


class _Named(tuple[Any, ...]):
    """What all of them have in common."""

    __slots__ = ()
    _fields: tuple[str, ...]
    _field_defaults: dict[str, Any]

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Any:
        """A tuple of values that come one after the other. Raises TypeError if there are not as many as fields."""
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **changes: Any) -> Any:
        """The same with other values in some fields. Raises ValueError for names that are none."""
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return made

    def _asdict(self) -> dict[str, Any]:
        """The values by name."""
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        values = ", ".join([f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)])
        return f"{self.__class__.__name__}({values})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


class _Maker(type):
    """Makes a class of a body with annotations; that class is an ordinary one, and may be derived from."""

    def __new__(cls, name: str, _: tuple[type, ...], body: dict[str, Any]) -> Any:
        fields = tuple(body.get("__annotations__", ()))
        defaults: dict[str, Any] = {}
        for place, field in enumerate(fields):
            if field in body:
                defaults[field] = body[field]
            elif defaults:
                raise TypeError(f"non-default namedtuple field {field} cannot follow default fields")
            body[field] = _tuplegetter(place, None)
        body.pop("__orig_bases__", None)
        body |= {"__slots__": (), "__match_args__": fields, "_fields": fields, "_field_defaults": defaults}
        made: Any = type(name, (_Named,), body)
        made.__new__ = staticmethod(_first_new(made, fields, defaults))
        return made


def _first_new(owner: Any, fields: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., Any]:
    """A constructor for the first values, which then compiles the real one and leaves its place to it."""
    left = FEW

    def first(cls: type, *values: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left >= 0 and _fit(fields, values, named):
            filled = defaults | dict(zip(fields, values, strict=False)) | named
            if len(filled) == len(fields):
                return tuple.__new__(cls, [filled[name] for name in fields])
        real = _new(owner.__name__, fields, defaults)
        if owner.__new__ is first:
            owner.__new__ = staticmethod(real)
        return real(cls, *values, **named)

    return first


def _fit(fields: tuple[str, ...], values: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether only fields are given, and each once; the real constructor refuses everything else in its own words."""
    return len(values) <= len(fields) and named.keys() <= set(fields[len(values) :])


def _new(name: str, fields: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., Any]:
    """The constructor of a class, compiled."""
    arguments = ", ".join([f"{field}=_defaults[{field!r}]" if field in defaults else field for field in fields])
    values = "".join([f"{field}, " for field in fields])
    known = {"_make": tuple.__new__, "_defaults": defaults}
    text = f"def __new__(_cls, {arguments}):\n return _make(_cls, ({values}))"
    exec(text, known)
    made: Any = known["__new__"]
    made.__qualname__ = f"{name}.__new__"
    return made  # type: ignore[no-any-return]


class _Base:
    """Stands where ``NamedTuple`` does among the bases of a class."""

    @staticmethod
    def __mro_entries__(_: tuple[Any, ...]) -> tuple[type]:
        return (_Origin,)


_Origin: Any = type.__new__(_Maker, "NamedTuple", (), {})

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    NamedTuple = _Base()

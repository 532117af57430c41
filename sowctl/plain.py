"""Classes of plain values whose definition costs a start next to nothing.

The standard library's ``dataclass`` writes and compiles the methods of a class as the class is defined, 0.3 to 0.5 ms
each, and a command of some milliseconds defines dozens of classes of which it fills a few. Here fields, slots and all
that :mod:`dataclasses` offers for them (``replace``, ``fields``, ``asdict``) are the library's, comparison and
representation are ordinary functions, and a constructor is compiled when the first value of its class is made: from
then on making one costs what it costs there.

For classes on the way of ``get``, ``query``, ``publish`` and ``eval``. Type checkers see the library's own. Anybody may
import this module; ``order``, ``kw_only`` and ``InitVar`` are not here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass", "field"]

_Class = TypeVar("_Class", bound=type)


def _plain(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Callable[[_Class], _Class]:
    """As ``dataclasses.dataclass``; methods that the class defines itself are kept."""

    def make(cls: _Class) -> _Class:
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        fields = dataclasses.fields(made)
        own = cls.__dict__
        methods: dict[str, object] = {"__init__": _first_init(made, frozen), "__repr__": _repr(fields)}
        if eq:
            compared = [one for one in fields if one.compare]
            hashed = [one for one in fields if (one.compare if one.hash is None else one.hash)]
            methods["__eq__"] = _eq(_key(compared))
            methods["__hash__"] = _hash(_key(hashed)) if frozen else None
        if frozen:
            methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
            if slots:
                methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
        for name, method in methods.items():
            # the language itself puts a __hash__ of None beside an __eq__
            if name not in own or (name == "__hash__" and own[name] is None and "__eq__" not in own):
                setattr(made, name, method)
        return made  # type: ignore[no-any-return]

    return make


def _first_init(cls: Any, frozen: bool) -> Callable[..., None]:
    """A constructor that compiles the real one, and leaves its place to it."""

    def first(self: object, *values: object, **named: object) -> None:
        init = _init(cls, frozen)
        if cls.__init__ is first:
            cls.__init__ = init
        init(self, *values, **named)

    return first


def _init(cls: Any, frozen: bool) -> Callable[..., None]:
    """The constructor of a class, compiled."""
    known: dict[str, object] = {"_set": object.__setattr__, "_absent": dataclasses.MISSING}
    parameters, body = ["self"], []
    for one in dataclasses.fields(cls):
        name = value = one.name
        if one.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"] = one.default_factory
            parameters.append(f"{name}=_absent")
            value = f"_make_{name}() if {name} is _absent else {name}"
        elif one.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = one.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"]), known)
    made: Any = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made  # type: ignore[no-any-return]


def _key(fields: list[dataclasses.Field[Any]]) -> Callable[[Any], object]:
    """What two values have in common if they are equal."""
    return attrgetter(*(one.name for one in fields)) if fields else lambda _: ()


def _eq(key: Callable[[Any], object]) -> Callable[[Any, object], object]:
    def equal(self: Any, other: object) -> object:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hash(key: Callable[[Any], object]) -> Callable[[Any], int]:
    def hashed(self: Any) -> int:
        return hash(key(self))

    return hashed


def _repr(fields: tuple[dataclasses.Field[Any], ...]) -> Callable[[Any], str]:
    names = [one.name for one in fields if one.repr]

    def shown(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return shown


def _refuse_set(_: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(_: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[object]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _setstate(self: Any, state: list[object]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _plain

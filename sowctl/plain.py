"""Classes of plain values whose definition costs a start next to nothing.

The standard library's ``dataclass`` writes and compiles the methods of a class as the class is defined, 0.3 to 0.5 ms
each, and a command of some milliseconds defines dozens of classes of which it fills a few. Here comparison and
representation are ordinary functions, and a constructor is compiled when a class turns out to have many values: from
then on making one costs what it costs there. The library is not even imported (1 ms, and with it ``inspect``, 3 ms);
it is where somebody asks it for ``fields`` or ``asdict`` of a value, and answers as for classes of its own.

For classes on the way of ``get``, ``query``, ``publish`` and ``eval``. Type checkers see the library's own. Anybody may
import this module; ``order``, ``kw_only`` and ``InitVar`` are not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass", "field", "replace"]

_Class = TypeVar("_Class", bound=type)
_ABSENT: Any = object()
FEW = 16
"""Values of a class that are made without compiling its constructor, which takes as long as making 30 of them so."""


class _Field:
    """What is said of a field behind its annotation; named as the arguments of ``dataclasses.field``."""

    __slots__ = ("compare", "default", "default_factory", "hash", "repr")

    def __init__(
        self,
        *,
        default: Any = _ABSENT,
        default_factory: Any = _ABSENT,
        repr: bool = True,
        hash: bool | None = None,
        compare: bool = True,
    ) -> None:
        self.default = default
        self.default_factory = default_factory
        self.repr = repr
        self.hash = hash
        self.compare = compare


def _plain(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Callable[[_Class], _Class]:
    """As ``dataclasses.dataclass``; methods that the class defines itself are kept."""

    def make(cls: _Class) -> _Class:
        mine = _declared(cls)
        fields = dict(item for base in reversed(cls.__mro__) for item in _fields(base).items()) | mine
        made: Any = _slotted(cls, fields, mine) if slots else _with_defaults(cls, mine)
        own = cls.__dict__
        methods: dict[str, object] = {
            "__init__": _first_init(made, frozen),
            "__repr__": _repr([name for name, one in fields.items() if one.repr]),
            "__match_args__": tuple(fields),
        }
        if eq:
            compared = [name for name, one in fields.items() if one.compare]
            hashed = [name for name, one in fields.items() if (one.compare if one.hash is None else one.hash)]
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
        made.__plain_fields__ = fields
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            setattr(made, name, _Asked(name))
        return made  # type: ignore[no-any-return]

    return make


def _fields(cls: type) -> Mapping[str, _Field]:
    """The fields of one class of this module; of any other class none."""
    found: Mapping[str, _Field] = cls.__dict__.get("__plain_fields__", {})
    return found


def _declared(cls: type) -> dict[str, _Field]:
    """The fields that a class has annotations for."""
    fields = {}
    for name, annotation in _annotations(cls):
        if not annotation.startswith("ClassVar"):
            said = cls.__dict__.get(name, _ABSENT)
            fields[name] = one = said if isinstance(said, _Field) else _Field(default=said)
            if one.default.__class__.__hash__ is None:
                raise ValueError(f"the default of {name} may change: give a default_factory")
    return fields


def _slotted(cls: type, fields: Mapping[str, _Field], mine: Mapping[str, _Field]) -> type:
    """The class once more, with slots; a default would stand where its slot belongs."""
    taken = {slot for base in cls.__mro__[1:] for slot in base.__dict__.get("__slots__", ())}
    body = {name: value for name, value in cls.__dict__.items() if name not in mine}
    body |= {"__slots__": tuple(name for name in fields if name not in taken), "__qualname__": cls.__qualname__}
    for automatic in ("__dict__", "__weakref__"):
        body.pop(automatic, None)
    return type(cls)(cls.__name__, cls.__bases__, body)


def _with_defaults(cls: type, mine: Mapping[str, _Field]) -> type:
    for name, one in mine.items():
        if one.default is not _ABSENT:
            setattr(cls, name, one.default)
        elif name in cls.__dict__:
            delattr(cls, name)
    return cls


def _first_init(cls: Any, frozen: bool) -> Callable[..., None]:
    """A constructor for the first values, which then compiles the real one and leaves its place to it."""
    left = FEW

    def first(self: Any, *values: object, **named: object) -> None:
        nonlocal left
        left -= 1
        filled = _filled(_fields(cls), values, named) if left >= 0 else None
        if filled is not None:
            for name, value in filled.items():
                object.__setattr__(self, name, value)
            if hasattr(cls, "__post_init__"):
                self.__post_init__()
            return
        init = _init(cls, frozen)
        if cls.__init__ is first:
            cls.__init__ = init
        init(self, *values, **named)

    return first


def _filled(
    fields: Mapping[str, _Field], values: tuple[object, ...], named: Mapping[str, object]
) -> dict[str, object] | None:
    """The value of each field; None for arguments that the real constructor refuses, in its own words."""
    filled = dict(zip(fields, values, strict=False))
    if len(values) > len(fields) or not named.keys().isdisjoint(filled):
        return None
    filled |= named
    for name, one in fields.items():
        if name not in filled and one.default_factory is not _ABSENT:
            filled[name] = one.default_factory()
        elif name not in filled and one.default is not _ABSENT:
            filled[name] = one.default
    return filled if filled.keys() == fields.keys() else None


def _init(cls: Any, frozen: bool) -> Callable[..., None]:
    """The constructor of a class, compiled."""
    known: dict[str, object] = {"_set": object.__setattr__, "_absent": _ABSENT}
    parameters, body = ["self"], []
    for name, one in _fields(cls).items():
        value = name
        if one.default_factory is not _ABSENT:
            known[f"_make_{name}"] = one.default_factory
            parameters.append(f"{name}=_absent")
            value = f"_make_{name}() if {name} is _absent else {name}"
        elif one.default is not _ABSENT:
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


def _key(names: list[str]) -> Callable[[Any], object]:
    """What two values have in common if they are equal."""
    return attrgetter(*names) if names else lambda _: ()


def _eq(key: Callable[[Any], object]) -> Callable[[Any, object], object]:
    def equal(self: Any, other: object) -> object:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hash(key: Callable[[Any], object]) -> Callable[[Any], int]:
    def hashed(self: Any) -> int:
        return hash(key(self))

    return hashed


def _repr(names: list[str]) -> Callable[[Any], str]:
    def shown(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return shown


def _refuse_set(_: object, name: str, value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(_: object, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[object]:
    return [getattr(self, name) for name in self.__plain_fields__]


def _setstate(self: Any, state: list[object]) -> None:
    for name, value in zip(self.__plain_fields__, state, strict=True):
        object.__setattr__(self, name, value)


def _replace(value: Any, /, **changes: object) -> Any:
    """As ``dataclasses.replace``, for values of its classes, too."""
    return value.__class__(**{name: getattr(value, name) for name in value.__match_args__} | changes)


class _Asked:
    """What :mod:`dataclasses` looks for in a class; the library itself makes it when it does."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, _: object, cls: type) -> object:
        import dataclasses

        owner = next(base for base in cls.__mro__ if _Asked is type(base.__dict__.get(self.name)))
        types = {name: text for base in reversed(owner.__mro__) for name, text in _annotations(base)}
        declared = [(name, types[name], _library_field(one)) for name, one in _fields(owner).items()]
        found = getattr(dataclasses.make_dataclass(owner.__name__, declared, init=False, eq=False), self.name)
        setattr(owner, self.name, found)
        return found


def _annotations(cls: type) -> Iterable[tuple[str, str]]:
    """Those of the class itself, as they are written."""
    found: dict[str, str] = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 - inspect takes 3 ms to import
    return found.items()


def _library_field(one: _Field) -> Any:
    import dataclasses

    said = {name: getattr(one, name) for name in one.__slots__}
    return dataclasses.field(**{name: value for name, value in said.items() if value is not _ABSENT})


if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:
    dataclass, field, replace = _plain, _Field, _replace

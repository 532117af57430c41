"""The functions that a configuration adds to the expression language: those of built-in modules, and user functions.

``UserDefinedFunctions/Function`` names a module and a symbol in it. The module's library is never loaded; what stands
in for it is a Python entry point of the group ``sowctl.functions`` under the module's name, whose attribute of the
symbol's name is called (``sowctl-plugins(7)``). Nothing is imported before an expression asks for the function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from sowctl.errors import ConfigError, InputError
from sowctl.values.fields import Number, SlotValue, ValueList
from sowctl.values.scalars import parse_decimal

if TYPE_CHECKING:
    from sowctl.config.actions import FunctionConfig
    from sowctl.engine.instance import Instance
    from sowctl.expressions.functions.signature import Function

LOOKUP_LIBRARY = "udf_experimental"
"""A module whose Library has this in its name brings VALUE_LOOKUP, for the tables of its Lookup options."""
FUNCTION_FAILED_CODE = "SOW-EXP-031"
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


class AddedFunctions(Mapping[str, "Function"]):
    """Functions by upper-case name, each made when it is first asked for; then ConfigError says why one cannot be."""

    def __init__(self, makers: Mapping[str, Callable[[], Function]]) -> None:
        self._makers = makers
        self._made: dict[str, Function] = {}

    def __getitem__(self, name: str) -> Function:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __contains__(self, name: object) -> bool:
        return name in self._makers


def load_functions(instance: Instance) -> Mapping[str, Function]:
    """The functions that an instance's modules add to expressions, by upper-case name.

    A user function hides one of a module; none hides a built-in one. They are looked up at every call; ask once per
    command. Raises ConfigError where one of them cannot be loaded.
    """
    top = instance.config.document.top if instance.config is not None else None
    if top is None or top.find("Modules", "UserDefinedFunctions") is None:
        return {}  # nearly every configuration: what follows would cost the start of each query its imports
    from sowctl.engine.extensions.plugins import is_library, list_modules
    from sowctl.expressions.functions.legacy import LEGACY_FUNCTIONS
    from sowctl.expressions.functions.legacy import LEGACY_LIBRARY as LEGACY_LIBRARY

    makers: dict[str, Callable[[], Function]] = {}
    loaded = list_modules(instance).values()
    if any(is_library(module, LEGACY_LIBRARY) for module in loaded):
        makers |= {one.name: partial(_return_function, one) for one in LEGACY_FUNCTIONS}
    tables = [
        text
        for module in loaded
        if is_library(module, LOOKUP_LIBRARY)
        for tag, text in module.options
        if tag == "Lookup"
    ]
    if tables:
        makers["VALUE_LOOKUP"] = lambda: _build_lookup(instance, tables)
    for user in instance.config.functions if instance.config is not None else ():
        makers[user.name.upper()] = partial(load_user_function, user)
    return AddedFunctions(makers)


def _return_function(one: Function) -> Function:
    return one


def _build_lookup(instance: Instance, tables: list[str]) -> Function:
    from sowctl.engine.extensions.lookups import build_value_lookup

    return build_value_lookup(instance, tables)


def load_user_function(user: FunctionConfig) -> Function:
    """The function of an entry point.

    Its attribute ``deterministic`` (default true) says whether equal arguments give equal results at any time. NULL
    arguments reach it as None, Strings as ``str``. Raises ConfigError ``SOW-ENG-060`` where nothing stands in for the
    module, ``SOW-ENG-061`` where that has no such symbol.
    """
    from sowctl.engine.extensions.plugins import FUNCTIONS_GROUP, load_entry_point
    from sowctl.expressions.functions.signature import UNLIMITED_ARGUMENTS, Function

    library = load_entry_point(FUNCTIONS_GROUP, user.module)
    if library is None:
        raise ConfigError(
            "SOW-ENG-060",
            f"function {user.name} requires module {user.module!r}, but no installed package replaces it",
            place=str(user.place),
            hint=f"install a Python package that registers {user.module!r} in the group {FUNCTIONS_GROUP}, see "
            "sowctl-plugins(7)",
        )
    call = getattr(library, user.symbol, None)
    if not callable(call):
        raise ConfigError(
            "SOW-ENG-061",
            f"function {user.name}: the replacement of module {user.module!r} has no function {user.symbol!r}",
            place=str(user.place),
        )
    words = (call.__doc__ or "").strip().splitlines()
    return Function(
        name=user.name.upper(),
        call=_guard_calls(user.name.upper(), call),
        parameters=("scalar",) * (1 if user.parameters is None else user.parameters),
        least=user.parameters or 0,
        most=UNLIMITED_ARGUMENTS if user.parameters is None else user.parameters,
        result="scalar",
        doc=words[0].rstrip(".") if words else f"{user.symbol} of module {user.module}",
        strict=False,
        deterministic=bool(getattr(call, "deterministic", True)),
        gets="",
        lookup=False,
    )


def _guard_calls(name: str, call: Callable[..., Any]) -> Callable[..., SlotValue]:
    """The function over values of the language; what it raises or wrongly returns refuses the message."""

    def guarded(*arguments: SlotValue) -> SlotValue:
        try:
            result = call(*map(_encode_argument, arguments))
        except Exception as error:
            raise InputError(
                FUNCTION_FAILED_CODE, f"function {name} failed: {type(error).__name__}: {error}"
            ) from error
        return _decode_result(name, result)

    return guarded


def _encode_argument(value: SlotValue) -> object:
    """A value as user functions see it; bytes that are no UTF-8 survive the way there and back."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Number):
        return value.value
    return value if not isinstance(value, ValueList) else None


def _decode_result(name: str, result: object) -> SlotValue:
    if isinstance(result, str):
        return result.encode("utf-8", "surrogateescape") or None
    if isinstance(result, bytes):
        return result or None
    if result is None or isinstance(result, (bool, float)):
        return result
    if isinstance(result, int):
        return result if _LEAST <= result <= _MOST else parse_decimal(str(result))
    kind = type(result).__name__
    raise InputError(FUNCTION_FAILED_CODE, f"function {name} returned an unsupported type {kind}")

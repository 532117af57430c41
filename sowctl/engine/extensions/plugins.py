"""Substitutes for the libraries that Modules of a configuration name: built-in modules, Python entry points.

A ``Library`` is machine code for another program and is never loaded. Either this program has what it does built in,
or a Python package that is installed beside it registers an entry point under the module's Name, in the group
``sowctl.key_generators`` or ``sowctl.functions`` (``sowctl-plugins(7)``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.errors import ConfigError

if TYPE_CHECKING:
    from sowctl.config.actions import ModuleConfig
    from sowctl.engine.instance import Instance

FUNCTIONS_GROUP = "sowctl.functions"

ModuleOptions = tuple[tuple[str, str], ...]
"""Tag and text of every option, in the order of the file."""


def list_modules(instance: Instance) -> dict[str, ModuleConfig]:
    """The modules that the configuration loads, by name."""
    found: dict[str, ModuleConfig] = {}
    for module in instance.config.modules if instance.config is not None else ():
        found.setdefault(module.name, module)
    return found


def is_library(module: ModuleConfig, name: str) -> bool:
    """Return whether a module loads the library of this name, wherever it lies."""
    return name in module.library.rpartition("/")[2]


def load_entry_point(group: str, name: str) -> object | None:
    """Load the object that an installed package registered under this name, None for nothing.

    Raises ConfigError ``SOW-ENG-048`` where it is registered and cannot be imported, ``SOW-ENG-051`` where several
    packages register it.
    """
    from importlib.metadata import entry_points

    found = list(dict.fromkeys(entry_points(group=group, name=name)))
    if not found:
        return None
    if len(found) > 1:
        packages = ", ".join(point.value for point in found)
        raise ConfigError("SOW-ENG-051", f"several packages register {name!r} in the group {group}: {packages}")
    try:
        loaded: object = found[0].load()
        return loaded
    except Exception as error:
        raise ConfigError(
            "SOW-ENG-048",
            f"cannot load the entry point {name!r} of the group {group}: {type(error).__name__}: {error}",
            hint=f"its value is {found[0].value}",
        ) from error

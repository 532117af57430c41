"""The parameters of the global options, and their environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from sowctl.cli.parsing.parameters import Parameter, read_parameters
from sowctl.cli.settings import Settings
from sowctl.declarations import Option
from sowctl.errors import UsageError

GLOBAL_PARAMETERS: tuple[Parameter, ...] = read_parameters(Settings)
GLOBAL_VARIABLES: dict[str, str] = {
    parameter.name: f"SOWCTL_{parameter.name.upper()}" for parameter in GLOBAL_PARAMETERS
}
"""The environment variable of each global option; it counts if the option is not given."""
_SWITCH_VALUES = {"1": 1, "true": 1, "yes": 1, "on": 1, "0": 0, "false": 0, "no": 0, "off": 0, "2": 2, "3": 3}
"""Values of the variable of an option without a value: whether it is given, or how often."""


def read_environment(environ: Mapping[str, str]) -> tuple[Parameter, ...]:
    """``GLOBAL_PARAMETERS`` with the values of the environment as defaults; empty variables are ignored.

    --config is unchanged: commands that can run without a configuration read only one that is given, so
    :meth:`~sowctl.cli.context.Invocation.find_config_path` reads its variable.
    Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-091`` for a value that the option would not accept.
    """
    found = []
    for parameter in GLOBAL_PARAMETERS:
        name = GLOBAL_VARIABLES[parameter.name]
        text = None if parameter.name == "config" else environ.get(name) or None
        if text is None:
            found.append(parameter)
            continue
        choices = parameter.declared.choices if parameter.takes_value else tuple(_SWITCH_VALUES)
        # Switches are accepted in any letter case; choices only as in --help.
        known = text if parameter.takes_value else text.lower()
        if choices and known not in choices:
            words = f"{name} is '{text}'; it takes {', '.join(choices)}"
            raise UsageError("SOW-CLI-091", words, hint=f"unset {name}, or give it one of these")
        value: object = text
        if not parameter.takes_value:
            value = _SWITCH_VALUES[known] if parameter.shape == "count" else bool(_SWITCH_VALUES[known])
        # The default is replaced, so that an option on the command line overrides it.
        found.append(replace(parameter, default=value))
    return tuple(found)


# ``--format`` is no global option, but often precedes the command: its value must not be taken for a command.
LEADING_VALUE_OPTIONS = frozenset(
    name
    for parameter in GLOBAL_PARAMETERS
    if parameter.takes_value and isinstance(parameter.declared, Option)
    for name in parameter.declared.names
) | {"--format", "-F"}

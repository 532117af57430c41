"""The parameters of the global options, and the environment variables behind them."""

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
"""The environment variable of each global option; it counts where the option is not given."""
_SWITCH_VALUES = {"1": 1, "true": 1, "yes": 1, "on": 1, "0": 0, "false": 0, "no": 0, "off": 0, "2": 2, "3": 3}
"""What a variable of an option without a value may say: that it is given, or not, or how often."""


def read_environment(environ: Mapping[str, str]) -> tuple[Parameter, ...]:
    """``GLOBAL_PARAMETERS`` with what the environment sets as defaults; a variable that is empty sets nothing.

    --config stays as it is: commands that can do without a configuration read only one that is given, so that
    :meth:`~sowctl.cli.context.Invocation.find_config_path` looks at its variable.
    Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-091`` for a value that the option would not take.
    """
    found = []
    for parameter in GLOBAL_PARAMETERS:
        name = GLOBAL_VARIABLES[parameter.name]
        text = None if parameter.name == "config" else environ.get(name) or None
        if text is None:
            found.append(parameter)
            continue
        choices = parameter.declared.choices if parameter.takes_value else tuple(_SWITCH_VALUES)
        # Words are taken as they are usually written; choices only as --help has them.
        known = text if parameter.takes_value else text.lower()
        if choices and known not in choices:
            words = f"{name} is '{text}'; it takes {', '.join(choices)}"
            raise UsageError("SOW-CLI-091", words, hint=f"unset {name}, or give it one of these")
        value: object = text
        if not parameter.takes_value:
            value = _SWITCH_VALUES[known] if parameter.shape == "count" else bool(_SWITCH_VALUES[known])
        # The default is exchanged, so that an option on the command line still wins.
        found.append(replace(parameter, default=value))
    return tuple(found)


# ``--format`` is no global option, and often written in front of the command: its value must not be taken for a
# command.
LEADING_VALUE_OPTIONS = frozenset(
    name
    for parameter in GLOBAL_PARAMETERS
    if parameter.takes_value and isinstance(parameter.declared, Option)
    for name in parameter.declared.names
) | {"--format", "-F"}

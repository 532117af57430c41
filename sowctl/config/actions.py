"""Modules, user functions and actions as typed values. They are checked and shown; no module is loaded.

Members of :class:`~sowctl.config.model.InstanceConfig`, used by the commands that show or check a configuration, and by
``sowctl upkeep``, which does the file operations of actions. ``EQUIVALENT_COMMANDS`` maps each action to the command
that does the same by hand. Ruled by ``sow-config(5)``, actions, modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sowctl.config.config_value import Configured
from sowctl.config.document import ElementNode
from sowctl.config.node_values import read_options
from sowctl.config.topic_patterns import is_pattern
from sowctl.findings import Place

ID_CHAINING_GENERATOR = "id_chaining_key_generator"
"""A module whose Library has this in its name is the chaining key generator, which is built in."""
KEY_GENERATOR_GROUP = "sowctl.key_generators"
"""The group of entry points under which Python packages register key generators (``sowctl-plugins(7)``)."""


class ModuleConfig(Configured, frozen=True, eq=False):
    """A module: ``library`` is only a text; no library is loaded, here or elsewhere."""

    name: str
    library: str
    options: tuple[tuple[str, str], ...]
    place: Place


class FunctionConfig(Configured, frozen=True, eq=False):
    """A function that a module would add to expressions; ``parameters`` is None for any number of them."""

    name: str
    module: str
    symbol: str
    parameters: int | None
    place: Place


class ActionStep(Configured, frozen=True, eq=False):
    """One On, If or Do of an action: a module and its options, tag and text in file order."""

    kind: Literal["On", "If", "Do"]
    module: str
    options: tuple[tuple[str, str], ...]
    place: Place

    @property
    def equivalent_command(self) -> str | None:
        """The command that does the same by hand, with the options of this step filled in; None if there is none."""
        pattern = EQUIVALENT_COMMANDS.get(self.module)
        return None if pattern is None else _fill_options(pattern, dict(self.options))


class Action(Configured, frozen=True, eq=False):
    """The steps that run on certain events, in file order."""

    steps: tuple[ActionStep, ...]
    place: Place


EQUIVALENT_COMMANDS: Mapping[str, str] = {
    "amps-action-do-archive-journal": "sowctl journal archive {--older-than Age}",
    "amps-action-do-compress-journal": "sowctl journal compress {--older-than Age}",
    "amps-action-do-remove-journal": "sowctl journal prune {--keep-for Age}",
    "amps-action-do-compact-sow": "sowctl store compact {Topic}",
    "amps-action-do-delete-sow": "sowctl delete {Topic} {--message-type MessageType} {--filter Filter}",
    "amps-action-do-query-sow": "sowctl query {Topic} {--message-type MessageType} {--filter Filter} --top-n 1",
    "amps-action-do-publish-message": "sowctl publish {Topic} {--message-type MessageType}",
}
"""Commands by action module; ``{Name}`` is replaced by the option Name, quoted for a shell."""


def read_modules(top: ElementNode) -> tuple[ModuleConfig, ...]:
    """The modules of a configuration, in file order."""
    return tuple(
        ModuleConfig(node.find_text("Name") or "", node.find_text("Library") or "", read_options(node), node.place)
        for section in top.find_all("Modules")
        for node in section.find_all("Module")
    )


def read_functions(top: ElementNode) -> tuple[FunctionConfig, ...]:
    """The functions that modules add, in file order."""
    return tuple(
        FunctionConfig(
            node.find_text("Name") or "",
            node.find_text("Module") or "",
            node.find_text("Symbol") or "",
            _parse_parameter_count(node.find_text("ParameterCount")),
            node.place,
        )
        for section in top.find_all("UserDefinedFunctions")
        for node in section.find_all("Function")
    )


def read_actions(top: ElementNode) -> tuple[Action, ...]:
    """The actions of a configuration, in file order."""
    return tuple(
        Action(tuple(_read_step(node) for node in action.find_all("On", "If", "Do")), action.place)
        for section in top.find_all("Actions")
        for action in section.find_all("Action")
    )


def _read_step(node: ElementNode) -> ActionStep:
    kind: Literal["On", "If", "Do"] = "On" if node.tag == "On" else "If" if node.tag == "If" else "Do"
    return ActionStep(kind, node.find_text("Module") or "", read_options(node), node.place)


def _parse_parameter_count(text: str | None) -> int | None:
    from sowctl.values.units import parse_count

    try:
        return None if text is None else parse_count(text)
    except ValueError:
        return None


def _fill_options(pattern: str, options: Mapping[str, str]) -> str:
    """The words of a command pattern with options filled in, and ``--regex`` if the Topic of a deletion is a
    pattern."""
    import re
    import shlex

    def option(match: re.Match[str]) -> str:
        word, _, name = match[1].rpartition(" ")
        # The line is meant to be pasted into a shell, and the values come from a file.
        value = shlex.quote(" ".join(options.get(name, "").split()))
        # A name pattern deletes from several topics; the command requires --regex for that.
        if name == "Topic" and pattern.startswith("sowctl delete") and is_pattern(options.get(name, "")):
            value += " --regex"
        return f"{word} {value}" if word else value

    return re.sub(r"\{([^{}]+)\}", option, pattern)

"""What rules are about: entries of SOW under their present kind, steps of actions, transports, modules, functions.

Found in a file by :class:`sowctl.config.rules.survey.Survey`; named by every module of rules. Ruled by
``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.config.document import ElementNode
from sowctl.messages.types import DEFINED_TYPES, MESSAGE_TYPES

if TYPE_CHECKING:
    from sowctl.expressions.functions.signature import Function

KINDS = {
    "Topic": "Topic",
    "TopicDefinition": "Topic",
    "View": "View",
    "ViewDefinition": "View",
    "ConflatedTopic": "ConflatedTopic",
    "ReplicaDefinition": "ConflatedTopic",
    "Queue": "Queue",
    "QueueDefinition": "Queue",
    "LocalQueue": "LocalQueue",
    "GroupLocalQueue": "GroupLocalQueue",
}
QUEUES = frozenset({"Queue", "LocalQueue", "GroupLocalQueue"})
BUILT_IN_TYPES = frozenset(MESSAGE_TYPES)
TYPE_MODULES = BUILT_IN_TYPES.union(DEFINED_TYPES)
MEMBERS = {
    "MessageType": ("MessageTypes", "MessageType"),
    "Transport": ("Transports", "Transport"),
    "Protocol": ("Protocols", "Protocol"),
    "Module": ("Modules", "Module"),
    "Function": ("UserDefinedFunctions", "Function"),
    "Target": ("Logging", "Target"),
    "Action": ("Actions", "Action"),
    "Destination": ("Replication", "Destination"),
}
"""The sections whose members are a subject of rules, and the tag of those members."""


class SubjectEntry(Struct, frozen=True):
    """A SOW entry under its present kind, whatever spelling it has."""

    kind: str
    name: str
    type: str
    node: ElementNode
    number: int

    @property
    def label(self) -> str:
        return f"{self.kind} '{self.name}'"


class SubjectStep(Struct, frozen=True):
    """One On, If or Do of an action that names a module, and the Options element, if there is one."""

    action: ElementNode
    node: ElementNode
    module: str
    options: ElementNode | None

    def option(self, name: str) -> ElementNode | None:
        """The option of this name."""
        return None if self.options is None else self.options.find(name)


def is_transient(topic: ElementNode) -> bool:
    """Whether a topic has no store of its own."""
    return (topic.value("Durability", "Duration") or "").lower() == "transient"


def replicates(transport: ElementNode) -> bool:
    """Whether other instances connect to a transport, rather than clients."""
    return (transport.value("Type") or "").lower().startswith("amps-replication")


def file_of_library(module: ElementNode) -> str:
    """The name of the file that a module loads, wherever it lies."""
    return (module.value("Library") or "").rpartition("/")[2]


def known_types(declared: Iterable[ElementNode]) -> dict[str, str]:
    """Message types that can be named where these are declared, and the module behind each."""
    known = {name: name for name in BUILT_IN_TYPES}
    for node in declared:
        if name := node.value("Name"):
            retired = node.value("Type") or ""
            # An older spelling has the module in Type; a name that is built in keeps the module of that type.
            own = retired if retired in TYPE_MODULES else known.get(name, name)
            known[name] = node.value("Module") or own
    return known


def added_functions(modules: Iterable[ElementNode], declared: Iterable[ElementNode]) -> dict[str, Function]:
    """The functions that modules and declarations add to the language, by upper-case name, for checking only."""
    from sowctl.expressions.functions.legacy import LEGACY_FUNCTIONS, LEGACY_LIBRARY
    from sowctl.expressions.functions.signature import function

    added = {
        # The function is there in every configuration; whether its tables are declared is for F019 to say.
        "VALUE_LOOKUP": function(
            "VALUE_LOOKUP", _uncallable, "scalar scalar ...", "scalar", "", deterministic=False, lookup=True
        )
    }
    if any(LEGACY_LIBRARY in file_of_library(node) for node in modules):
        added |= {one.name: one for one in LEGACY_FUNCTIONS}
    for node in declared:
        name, count = (node.value("Name") or "").upper(), node.value("ParameterCount") or ""
        # Any number of arguments where none is declared, or none that can be read.
        variadic = not (count.isascii() and count.isdigit() and len(count) < 4)
        kinds = "scalar? ..." if variadic else " ".join(["scalar"] * int(count))
        if name:
            added[name] = function(name, _uncallable, kinds, "scalar", "")
    return added


def _uncallable(*arguments: Any) -> Any:
    raise NotImplementedError("a function of a module is known by its name only")

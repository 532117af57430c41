"""Subjects of rules: SOW entries under their present kind, action steps, transports, modules, functions.

Found in a file by :class:`sowctl.config.rules.survey.Survey`; used by every module of rules. Ruled by
``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.config.document import ElementNode
from sowctl.messages.types import DEFINED_TYPES, MESSAGE_TYPES
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from sowctl.expressions.functions.signature import Function

ENTRY_KINDS = {
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
QUEUE_KINDS = frozenset({"Queue", "LocalQueue", "GroupLocalQueue"})
BUILT_IN_TYPES = frozenset(MESSAGE_TYPES)
TYPE_MODULES = BUILT_IN_TYPES.union(DEFINED_TYPES)
SUBJECT_SECTIONS = {
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
    """A SOW entry under its present kind, in any spelling."""

    kind: str
    name: str
    type: str
    node: ElementNode
    number: int

    @property
    def ref(self) -> TopicRef:
        return TopicRef(self.name, self.type)

    @property
    def label(self) -> str:
        return f"{self.kind} '{self.name}'"


class SubjectStep(Struct, frozen=True):
    """One On, If or Do of an action with a module, and its Options element, if any."""

    action: ElementNode
    node: ElementNode
    module: str
    options: ElementNode | None

    def find_option(self, name: str) -> ElementNode | None:
        """The option of this name."""
        return None if self.options is None else self.options.find(name)


def is_transient(topic: ElementNode) -> bool:
    """Return True if a topic has no store of its own."""
    return (topic.find_text("Durability", "Duration") or "").lower() == "transient"


def is_replication(transport: ElementNode) -> bool:
    """Return True if other instances connect to a transport, rather than clients."""
    return (transport.find_text("Type") or "").lower().startswith("amps-replication")


def read_library_name(module: ElementNode) -> str:
    """The name of the file that a module loads, without its directory."""
    return (module.find_text("Library") or "").rpartition("/")[2]


def index_message_types(declared: Iterable[ElementNode]) -> dict[str, str]:
    """Return the modules of the known message types by name: built-in ones and these declarations."""
    known = {name: name for name in BUILT_IN_TYPES}
    for node in declared:
        if name := node.find_text("Name"):
            retired = node.find_text("Type") or ""
            # An older spelling has the module in Type; a built-in name keeps the module of its type.
            own = retired if retired in TYPE_MODULES else known.get(name, name)
            known[name] = node.find_text("Module") or own
    return known


def build_added_functions(modules: Iterable[ElementNode], declared: Iterable[ElementNode]) -> dict[str, Function]:
    """The functions that modules and declarations add to the language, by upper-case name, for checking only."""
    from sowctl.expressions.functions.legacy import LEGACY_FUNCTIONS, LEGACY_LIBRARY
    from sowctl.expressions.functions.signature import declare_function

    added = {
        # Every configuration has the function; F019 checks that its tables are declared.
        "VALUE_LOOKUP": declare_function(
            "VALUE_LOOKUP", _refuse_call, "scalar scalar ...", "scalar", "", deterministic=False, lookup=True
        )
    }
    if any(LEGACY_LIBRARY in read_library_name(node) for node in modules):
        added |= {one.name: one for one in LEGACY_FUNCTIONS}
    for node in declared:
        name, count = (node.find_text("Name") or "").upper(), node.find_text("ParameterCount") or ""
        # Any number of arguments if the count is absent or unreadable.
        variadic = not (count.isascii() and count.isdigit() and len(count) < 4)
        kinds = "scalar? ..." if variadic else " ".join(["scalar"] * int(count))
        if name:
            added[name] = declare_function(name, _refuse_call, kinds, "scalar", "")
    return added


def _refuse_call(*arguments: Any) -> Any:
    raise NotImplementedError("a function of a module is known by its name only")

"""One look over a whole configuration, shared by the rules: entries, journal, names that others may refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.config.document import ElementNode
from sowctl.config.matching import any_search, is_pattern, topic_matches
from sowctl.config.rules.subjects import KINDS, MEMBERS, QUEUES, SubjectEntry, SubjectStep, added_functions, known_types
from sowctl.config.spelling import meant
from sowctl.errors import ConfigError

if TYPE_CHECKING:
    from sowctl.config.rules.facts import Facts
    from sowctl.expressions.functions.signature import Function


class Survey:
    """The configuration as rules see it. Everything but the entries is worked out when first asked for."""

    def __init__(self, top: ElementNode, root: Path) -> None:
        self.top = top
        self.root = root
        nodes = [node for section in top.all("SOW", "TopicMetaData") for node in section.children if node.tag in KINDS]
        self.entries = tuple(
            SubjectEntry(
                KINDS[node.tag], node.value("Name", "Topic") or "", node.value("MessageType") or "", node, number
            )
            for number, node in enumerate(nodes)
        )

    def nodes(self, subject: str) -> Iterable[ElementNode]:
        """The nodes of a subject, in document order.

        ``AMPSConfig`` is the top; ``Entries`` are all entries of SOW, ``Queues`` those of the three kinds of queue, and
        Topic, View, ConflatedTopic, Queue, LocalQueue, GroupLocalQueue those of one kind under any of its names.
        MessageType, Transport, Protocol, Module, Function, Target, Action and Destination are the members of their
        sections; any other subject is a section itself: TransactionLog, Admin, Logging, Tuning...
        """
        if subject == "AMPSConfig":
            return (self.top,)
        if subject == "Entries":
            return (entry.node for entry in self.entries)
        if subject == "Queues":
            return (entry.node for entry in self.entries if entry.kind in QUEUES)
        if subject in MEMBERS:
            return self.children(*MEMBERS[subject])
        # Under the present name of a kind, so that a rule need not know the older spellings.
        if subject in KINDS:
            return (entry.node for entry in self.entries if entry.kind == subject)
        return self.top.all(subject)

    def children(self, section: str, tag: str) -> Iterator[ElementNode]:
        """All ``tag`` elements of all ``section`` elements at the top."""
        return (node for part in self.top.all(section) for node in part.all(tag))

    def again(self, node: ElementNode) -> bool:
        """Whether this stands in a section that is there a second time (S003), whose content may be there twice."""
        return id(node) in self._again

    @cached_property
    def _again(self) -> frozenset[int]:
        seen: set[str] = set()
        found: list[ElementNode] = []
        for section in self.top.children:
            # Both names of the section are one section.
            tag = "SOW" if section.tag == "TopicMetaData" else section.tag
            found.extend((section, *section.children) if tag in seen else ())
            seen.add(tag)
        return frozenset(map(id, found))

    def entry(self, node: ElementNode) -> SubjectEntry:
        """The entry of a node."""
        return self._by_node[id(node)]

    def named(self, name: str, type_: str | None = None) -> tuple[SubjectEntry, ...]:
        """The entries of a name, of one message type or any."""
        found = self._by_name.get(name, ())
        return tuple(found) if type_ is None else tuple(entry for entry in found if entry.type == type_)

    @cached_property
    def _by_name(self) -> dict[str, list[SubjectEntry]]:
        index: dict[str, list[SubjectEntry]] = {}
        for entry in self.entries:
            index.setdefault(entry.name, []).append(entry)
        return index

    @cached_property
    def _by_node(self) -> dict[int, SubjectEntry]:
        return {id(entry.node): entry for entry in self.entries}

    @cached_property
    def regex_topics(self) -> bool:
        return (self.top.value("RegexTopicSupport") or "true").lower() not in ("false", "disabled")

    @cached_property
    def journal(self) -> tuple[tuple[str, str], ...]:
        """Names and message types of the transaction log's topics."""
        topics = self.children("TransactionLog", "Topic")
        return tuple((node.value("Name") or "", node.value("MessageType") or "") for node in topics)

    def journalled(self, name: str, type_: str | None) -> bool:
        """Whether the transaction log records this topic; with type None, under any message type."""
        if (name, type_) in self._recorded[0]:
            return True
        search = self._searches.get(type_)
        return search is not None and search(name)

    @cached_property
    def _searches(self) -> dict[str | None, Callable[[str], bool]]:
        """The search of all journal patterns of a message type, and with None of all."""
        by_type: dict[str | None, list[str]] = {}
        for pattern, recorded in self._recorded[1]:
            by_type.setdefault(recorded, []).append(pattern)
            by_type.setdefault(None, []).append(pattern)
        return {type_: any_search(patterns) for type_, patterns in by_type.items()}

    @cached_property
    def _recorded(self) -> tuple[frozenset[tuple[str, str | None]], tuple[tuple[str, str], ...]]:
        """What the log records by name, with its type and with any, and what it records by pattern."""
        # With None for any type beside the type itself, so that both questions are one look-up.
        exact = frozenset(key for name, type_ in self.journal for key in ((name, type_), (name, None)))
        return exact, tuple(row for row in self.journal if self.regex_topics and is_pattern(row[0]))

    def matches(self, pattern: str, name: str) -> bool:
        """Whether a topic pattern of this file matches; one that is no pattern (S063 tells) matches nothing."""
        try:
            return topic_matches(pattern, name, self.regex_topics)
        except ConfigError:
            return False

    @cached_property
    def tree(self) -> tuple[ElementNode, ...]:
        """Every element of the file, in document order."""
        found: list[ElementNode] = []
        waiting = [self.top]
        while waiting:
            node = waiting.pop()
            found.append(node)
            waiting.extend(reversed(node.children))
        return tuple(found)

    def order(self, node: ElementNode) -> int:
        """The number of an element in document order."""
        return self._order[id(node)]

    @cached_property
    def _order(self) -> dict[int, int]:
        return {id(node): number for number, node in enumerate(self.tree)}

    @cached_property
    def whole(self) -> bool:
        """Whether what is absent is absent: no include missing, no section misspelled, and this is no lone section."""
        lone = self.top.inner < 0 and len(self.top.children) < 2
        # What a misspelt section holds is there for its author, so its absence proves nothing.
        misspelled = any(meant(self.top, section) for section in ("TransactionLog", "Actions", "Logging", "SOW"))
        return not lone and not misspelled and all(node.complete for node in self.tree)

    @cached_property
    def serves(self) -> bool:
        """Whether the file describes something that listens: only then do rules about a running server apply."""
        return any(True for _ in self.nodes("Transport")) or any(
            node.find("InetAddr") is not None for node in self.nodes("Admin")
        )

    @cached_property
    def steps(self) -> tuple[SubjectStep, ...]:
        """The On, If and Do of all actions, in document order."""
        return tuple(
            SubjectStep(action, node, module, node.find("Options"))
            for action in self.nodes("Action")
            for node in action.all("On", "If", "Do")
            if (module := node.value("Module"))
        )

    def doing(self, *modules: str) -> tuple[SubjectStep, ...]:
        """The steps with one of these modules, named without ``amps-action-``."""
        names = {f"amps-action-{module}" for module in modules}
        return tuple(step for step in self.steps if step.module in names)

    @cached_property
    def facts(self) -> Facts:
        """What the author says about messages and machine in a comment of the file."""
        from sowctl.config.rules.facts import facts_of

        return facts_of(self.top.source.text)

    def typed(self, *types: str | None) -> bool:
        """Whether these message types are known; where not, another rule tells, and nothing follows from them."""
        return all(type_ in self.types for type_ in types)

    @cached_property
    def all_named(self) -> bool:
        """Whether every entry has a name and a known tag; one that has not may be what something refers to."""
        sections = self.top.all("SOW", "TopicMetaData")
        known = all(node.tag in KINDS for section in sections for node in section.children)
        return known and all(entry.name for entry in self.entries)

    def readable(self, pattern: str) -> bool:
        """Whether this topic pattern and those of the journal can all be used; where not, S002, S063 or S065 tells."""
        return self._journal_readable and (not self.regex_topics or _usable(pattern))

    @cached_property
    def _journal_readable(self) -> bool:
        misspelled = any(meant(log, "Topic") for log in self.nodes("TransactionLog"))
        usable = all(name and (not self.regex_topics or _usable(name)) for name, _ in self.journal)
        return usable and not misspelled

    def search(self, pattern: str, name: str) -> bool:
        """Whether a Pattern matches a topic name; it is a pattern whatever RegexTopicSupport says."""
        try:
            return topic_matches(pattern, name)
        except ConfigError:
            return False

    @cached_property
    def types(self) -> dict[str, str]:
        """Message types that can be named, and the module behind each."""
        return known_types(self.nodes("MessageType"))

    def parts(self, name: str) -> int:
        """How many parts a composite message type has; 0 for any other."""
        found = [node for node in self.nodes("MessageType") if node.value("Name") == name]
        return len(list(found[0].all("MessageType"))) if found else 0

    @cached_property
    def modules(self) -> frozenset[str]:
        """Names of the modules that the file loads."""
        return frozenset(node.value("Name") or "" for node in self.children("Modules", "Module"))

    @cached_property
    def functions(self) -> dict[str, Function]:
        """The functions that the file's modules add to the language, by upper-case name, for checking only."""
        return added_functions(self.nodes("Module"), self.nodes("Function"))


def _usable(pattern: str) -> bool:
    try:
        # A pattern is compiled by its first use; this name is no topic's.
        topic_matches(pattern, "\0")
    except ConfigError:
        return False
    return True

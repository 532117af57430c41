"""The parts of a configuration that several rules read, found once: entries, journal, names of definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.config.document import ElementNode
from sowctl.config.rules.subjects import (
    ENTRY_KINDS,
    QUEUE_KINDS,
    SUBJECT_SECTIONS,
    SubjectEntry,
    SubjectStep,
    build_added_functions,
    index_message_types,
)
from sowctl.config.suggestions import has_misspelled_child
from sowctl.config.topic_patterns import compile_any_search, is_pattern, topic_matches
from sowctl.errors import ConfigError
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from sowctl.config.rules.facts import Facts
    from sowctl.expressions.functions.signature import Function


class Survey:
    """A configuration prepared for rules. Everything except the entries is computed on first use."""

    def __init__(self, top: ElementNode, root: Path) -> None:
        self.top = top
        self.root = root
        nodes = [
            node
            for section in top.find_all("SOW", "TopicMetaData")
            for node in section.children
            if node.tag in ENTRY_KINDS
        ]
        self.entries = tuple(
            SubjectEntry(
                ENTRY_KINDS[node.tag],
                node.find_text("Name", "Topic") or "",
                node.find_text("MessageType") or "",
                node,
                number,
            )
            for number, node in enumerate(nodes)
        )

    def find_nodes(self, subject: str) -> Iterable[ElementNode]:
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
            return (entry.node for entry in self.entries if entry.kind in QUEUE_KINDS)
        if subject in SUBJECT_SECTIONS:
            return self.find_children(*SUBJECT_SECTIONS[subject])
        # By the present name of a kind, so that a rule need not know the older spellings.
        if subject in ENTRY_KINDS:
            return (entry.node for entry in self.entries if entry.kind == subject)
        return self.top.find_all(subject)

    def find_children(self, section: str, tag: str) -> Iterator[ElementNode]:
        """All ``tag`` elements of all ``section`` elements at the top."""
        return (node for part in self.top.find_all(section) for node in part.find_all(tag))

    def is_repeated(self, node: ElementNode) -> bool:
        """Return True for a node in a repeated section (S003), whose content may occur twice."""
        return id(node) in self._repeated_nodes

    @cached_property
    def _repeated_nodes(self) -> frozenset[int]:
        seen: set[str] = set()
        found: list[ElementNode] = []
        for section in self.top.children:
            # Both names of the section count as one section.
            tag = "SOW" if section.tag == "TopicMetaData" else section.tag
            found.extend((section, *section.children) if tag in seen else ())
            seen.add(tag)
        return frozenset(map(id, found))

    def find_entry(self, node: ElementNode) -> SubjectEntry:
        """The entry of a node."""
        return self._by_node[id(node)]

    def find_entries(self, name: str, type_: str | None = None) -> tuple[SubjectEntry, ...]:
        """The entries with a name, of one message type or any."""
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
    def has_regex_topics(self) -> bool:
        return (self.top.find_text("RegexTopicSupport") or "true").lower() not in ("false", "disabled")

    @cached_property
    def journal_topics(self) -> tuple[TopicRef, ...]:
        """The transaction log's topics, names and patterns."""
        nodes = self.find_children("TransactionLog", "Topic")
        return tuple(TopicRef(node.find_text("Name") or "", node.find_text("MessageType") or "") for node in nodes)

    def is_journaled(self, name: str, type_: str | None) -> bool:
        """Return True if the transaction log records this topic; with type None, under any message type."""
        if (name, type_) in self._journal_index[0]:
            return True
        search = self._searches.get(type_)
        return search is not None and search(name)

    @cached_property
    def _searches(self) -> dict[str | None, Callable[[str], bool]]:
        """The combined search of all journal patterns by message type; key None for all types."""
        by_type: dict[str | None, list[str]] = {}
        for pattern, recorded in self._journal_index[1]:
            by_type.setdefault(recorded, []).append(pattern)
            by_type.setdefault(None, []).append(pattern)
        return {type_: compile_any_search(patterns) for type_, patterns in by_type.items()}

    @cached_property
    def _journal_index(self) -> tuple[frozenset[tuple[str, str | None]], tuple[TopicRef, ...]]:
        """The topics that the log records by name, with their type and with None for any, and those by pattern."""
        # Keys with None for any type are added, so that both questions are one look-up.
        exact = frozenset(key for name, type_ in self.journal_topics for key in ((name, type_), (name, None)))
        return exact, tuple(ref for ref in self.journal_topics if self.has_regex_topics and is_pattern(ref.name))

    def matches_topic(self, pattern: str, name: str) -> bool:
        """Return True if a topic pattern of this file matches; False for an invalid one (S063 reports it)."""
        try:
            return topic_matches(pattern, name, self.has_regex_topics)
        except ConfigError:
            return False

    @cached_property
    def document_nodes(self) -> tuple[ElementNode, ...]:
        """Every element of the file, in document order."""
        found: list[ElementNode] = []
        waiting = [self.top]
        while waiting:
            node = waiting.pop()
            found.append(node)
            waiting.extend(reversed(node.children))
        return tuple(found)

    def find_order(self, node: ElementNode) -> int:
        """The number of an element in document order."""
        return self._node_order[id(node)]

    @cached_property
    def _node_order(self) -> dict[int, int]:
        return {id(node): number for number, node in enumerate(self.document_nodes)}

    @cached_property
    def is_complete(self) -> bool:
        """Return True if absence is conclusive: no include missing, no section misspelled, no single section alone."""
        lone = self.top.inner < 0 and len(self.top.children) < 2
        # The author considers the content of a misspelt section present, so its absence is not conclusive.
        misspelled = any(
            has_misspelled_child(self.top, section) for section in ("TransactionLog", "Actions", "Logging", "SOW")
        )
        return not lone and not misspelled and all(node.complete for node in self.document_nodes)

    @cached_property
    def has_listener(self) -> bool:
        """Return True if the file defines a listener; only then do rules about a server apply."""
        return any(True for _ in self.find_nodes("Transport")) or any(
            node.find("InetAddr") is not None for node in self.find_nodes("Admin")
        )

    @cached_property
    def steps(self) -> tuple[SubjectStep, ...]:
        """The On, If and Do of all actions, in document order."""
        return tuple(
            SubjectStep(action, node, module, node.find("Options"))
            for action in self.find_nodes("Action")
            for node in action.find_all("On", "If", "Do")
            if (module := node.find_text("Module"))
        )

    def find_steps(self, *modules: str) -> tuple[SubjectStep, ...]:
        """The steps with one of these modules, named without ``amps-action-``."""
        names = {f"amps-action-{module}" for module in modules}
        return tuple(step for step in self.steps if step.module in names)

    @cached_property
    def facts(self) -> Facts:
        """The facts about messages and machine that the author states in a comment of the file."""
        from sowctl.config.rules.facts import parse_facts

        return parse_facts(self.top.source.text)

    def knows_types(self, *types: str | None) -> bool:
        """Return True if these message types are known; if not, another rule reports it, and nothing can be
        concluded."""
        return all(type_ in self.types for type_ in types)

    @cached_property
    def has_all_names(self) -> bool:
        """Return True if every entry has a name and a known tag; one without may be the target of a reference."""
        sections = self.top.find_all("SOW", "TopicMetaData")
        known = all(node.tag in ENTRY_KINDS for section in sections for node in section.children)
        return known and all(entry.name for entry in self.entries)

    def can_use_pattern(self, pattern: str) -> bool:
        """Return True if this pattern and those of the journal are usable; else S002, S063 or S065 reports it."""
        return self._can_use_journal_patterns and (not self.has_regex_topics or _is_usable_pattern(pattern))

    @cached_property
    def _can_use_journal_patterns(self) -> bool:
        misspelled = any(has_misspelled_child(log, "Topic") for log in self.find_nodes("TransactionLog"))
        usable = all(
            name and (not self.has_regex_topics or _is_usable_pattern(name)) for name, _ in self.journal_topics
        )
        return usable and not misspelled

    def matches_pattern(self, pattern: str, name: str) -> bool:
        """Return True if a Pattern matches a topic name; it is a pattern whatever RegexTopicSupport says."""
        try:
            return topic_matches(pattern, name)
        except ConfigError:
            return False

    @cached_property
    def types(self) -> dict[str, str]:
        """Known message types, and the module of each."""
        return index_message_types(self.find_nodes("MessageType"))

    def count_parts(self, name: str) -> int:
        """Count the parts of a composite message type; 0 for any other."""
        found = [node for node in self.find_nodes("MessageType") if node.find_text("Name") == name]
        return len(list(found[0].find_all("MessageType"))) if found else 0

    @cached_property
    def modules(self) -> frozenset[str]:
        """Names of the modules that the file loads."""
        return frozenset(node.find_text("Name") or "" for node in self.find_children("Modules", "Module"))

    @cached_property
    def functions(self) -> dict[str, Function]:
        """The functions that the file's modules add to the language, by upper-case name, for checking only."""
        return build_added_functions(self.find_nodes("Module"), self.find_nodes("Function"))


def _is_usable_pattern(pattern: str) -> bool:
    try:
        # A pattern is compiled on first use; no topic has this name.
        topic_matches(pattern, "\0")
    except ConfigError:
        return False
    return True

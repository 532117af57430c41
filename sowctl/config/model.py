"""The typed configuration: the elements that the engine acts on, as frozen values with their places in the file.

Created by :func:`sowctl.config.instance.load_instance`; read by every verb. Durations are microseconds where the name
says so. Two values are equal if they mean the same, wherever they are written. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from sowctl.config.config_value import Configured
from sowctl.config.document import Document, ElementNode
from sowctl.config.topic_patterns import compile_topic_search, topic_matches
from sowctl.findings import Place
from sowctl.remote.place import RemotePath, parse_url
from sowctl.values.paths import Path as FieldPath
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from sowctl.config.actions import Action, FunctionConfig, ModuleConfig
    from sowctl.messages.definition import TypeDefinition


class Expiration(Struct, frozen=True):
    """When records expire: never, when their publisher says so, or after ``interval_us`` unless the publisher says."""

    kind: Literal["disabled", "enabled", "interval"]
    interval_us: int = 0


class History(Struct, frozen=True):
    """The retention of superseded versions, and the time between them; microseconds."""

    window_us: int
    granularity_us: int


class KeyGenerator(Configured, frozen=True, eq=False):
    """A key generator module and its options, tag and text in file order."""

    module: str
    options: tuple[tuple[str, str], ...]
    place: Place


class Logical(Struct, frozen=True):
    """Some logical topics of a Pattern topic: the one of this name or, with ``regex``, all that it matches.

    With ``parts``, the logical topics of all parts; ``text`` is only for messages then.
    """

    text: str
    regex: bool = False
    parts: tuple[Logical, ...] = ()

    def contains_topic(self, name: str) -> bool:
        """Return True if the logical topic ``name`` is included. Raises ConfigError as ``topic_matches`` does."""
        if self.parts:
            return any(part.contains_topic(name) for part in self.parts)
        return compile_topic_search(self.text)(name) if self.regex else name == self.text


class TopicConfig(Configured, frozen=True, eq=False):
    """A SOW topic. ``key_domain`` is the Name if none is set, ``file`` None for a transient topic.

    ``logical`` is set if only a part of a Pattern topic is meant, ``key_mode`` is none if no store keeps records,
    ``derived`` is set for a view, conflated topic or queue that is read as a topic.
    """

    name: str
    message_type: str
    keys: tuple[FieldPath, ...]
    key_domain: str
    key_generator: KeyGenerator | None
    key_mode: Literal["fields", "user", "module", "none"]
    file: Path | None
    file_name: str | None
    durability: Literal["persistent", "transient"]
    recovery_point: str
    expiration: Expiration
    slab_size: int
    initial_slab_count: int
    hash_indexes: tuple[tuple[FieldPath, ...], ...]
    indexes: tuple[FieldPath, ...]
    expected_key_count_hint: int | None
    history: History | None
    preprocessing: tuple[str, ...]
    enrichment: tuple[str, ...]
    pattern: str | None
    journalled: bool
    place: Place
    node: ElementNode
    logical: Logical | None = None
    derived: OtherEntry | None = None

    kind = "Topic"

    @classmethod
    def build_bare(
        cls,
        name: str,
        message_type: str,
        place: Place,
        node: ElementNode,
        *,
        key_mode: Literal["user", "none"],
        slab_size: int,
        journalled: bool,
        derived: OtherEntry | None = None,
    ) -> TopicConfig:
        """A topic that no Topic element defines: without key fields and file, with defaults otherwise."""
        return cls(
            name=name,
            message_type=message_type,
            keys=(),
            key_domain=name,
            key_generator=None,
            key_mode=key_mode,
            file=None,
            file_name=None,
            durability="transient",
            recovery_point="epoch",
            expiration=Expiration("disabled"),
            slab_size=slab_size,
            initial_slab_count=1,
            hash_indexes=(),
            indexes=(),
            expected_key_count_hint=None,
            history=None,
            preprocessing=(),
            enrichment=(),
            pattern=None,
            journalled=journalled,
            place=place,
            node=node,
            derived=derived,
        )

    @property
    def ref(self) -> TopicRef:
        """Name and message type: for some logical topics, those of the whole topic."""
        return TopicRef(self.name, self.message_type)

    @property
    def whole_topic(self) -> TopicConfig:
        """The topic with all its logical topics."""
        return self if self.logical is None else replace(self, logical=None)

    @property
    def logical_name(self) -> str | None:
        """The selected logical topic, or None unless exactly one is selected."""
        return self.logical.text if self.logical is not None and not self.logical.regex else None

    @property
    def label(self) -> str:
        """The name to show: that of the one logical topic, else the topic's."""
        return self.logical_name or self.name

    @property
    def shares_domain(self) -> bool:
        """Return True if a KeyDomain is set, so that keys do not depend on the name of the topic."""
        return bool(self.node.find_text("KeyDomain"))


MAX_DERIVED_DEPTH = 50
"""Maximum depth of derived entries: each is opened by the one above it, on Python's stack."""


class OtherEntry(Configured, frozen=True, eq=False):
    """The base of views, conflated topics and queues; the kinds are in :mod:`sowctl.config.derived_entries`."""

    kind: str
    name: str
    message_type: str
    node: ElementNode
    place: Place

    @property
    def ref(self) -> TopicRef:
        """Name and message type."""
        return TopicRef(self.name, self.message_type)


SowEntry: TypeAlias = TopicConfig | OtherEntry


class JournalTopic(Configured, frozen=True, eq=False):
    """One Topic of the transaction log: a name or a regular expression, and a message type."""

    name: str
    message_type: str
    place: Place

    @property
    def ref(self) -> TopicRef:
        """Name, which may be a pattern, and message type."""
        return TopicRef(self.name, self.message_type)

    def is_named(self, name: str, message_type: str) -> bool:
        """Return True if its Name and MessageType are exactly these."""
        return self.ref == (name, message_type)


class TransactionLog(Configured, frozen=True, eq=False):
    """The place of the journals and the topics that they record. Sizes in bytes, durations in microseconds.

    ``archive_directory`` is a directory, or the URL of an archive (``sow-archive(5)``), for archived files. A ``file``
    URL is resolved to a directory and read as one; ``archive_is_file_url`` distinguishes it from a path."""

    directory: Path
    archive_directory: Path | RemotePath | None
    journal_size: int
    flush_interval_us: int
    preallocated: int
    topics: tuple[JournalTopic, ...]
    regex_topics: bool
    direct_io: bool
    inactive_client_ack_expiration_us: int | None
    place: Place
    archive_is_file_url: bool = False

    @property
    def local_archive(self) -> Path | None:
        """The archive, if it is a directory of this machine."""
        return self.archive_directory if isinstance(self.archive_directory, Path) else None

    @property
    def archive_url(self) -> RemotePath | None:
        """The archive, if the configuration gives a URL: files are uploaded to it, and stay here."""
        if isinstance(self.archive_directory, Path):
            return parse_url(str(self.archive_directory)) if self.archive_is_file_url else None
        return self.archive_directory

    @property
    def moved_archive(self) -> Path | None:
        """The archive, if files are moved to it: like those of the journal, they are compressed and removed."""
        return None if self.archive_is_file_url else self.local_archive

    def covers_topic(self, topic_name: str, message_type: str) -> bool:
        """Return True if publishes to this topic are journaled; names are unanchored patterns unless switched off."""
        return any(
            topic.message_type == message_type and topic_matches(topic.name, topic_name, self.regex_topics)
            for topic in self.topics
        )


class MessageTypeConfig(Configured, frozen=True, eq=False):
    """A MessageType definition: ``settings`` holds the texts of its other children by tag, in file order."""

    name: str
    module: str
    settings: Mapping[str, tuple[str, ...]]
    place: Place
    node: ElementNode


class InstanceConfig(Configured, frozen=True, eq=False):
    """One instance. ``sow`` is in file order; exact entries precede a pattern that would match them."""

    WHERE: ClassVar[frozenset[str]] = frozenset(("path", "directory", "document", "types"))

    name: str
    group: str
    path: Path
    directory: Path
    root: Path
    sow: tuple[SowEntry, ...]
    transaction_log: TransactionLog | None
    message_types: tuple[MessageTypeConfig, ...]
    document: Document
    types: Mapping[str, TypeDefinition] = field(default_factory=dict)
    """The message types of the configuration by name; built-in ones only if it redefines them."""

    @property
    def topics(self) -> tuple[TopicConfig, ...]:
        """The SOW topics, in file order."""
        return tuple(entry for entry in self.sow if isinstance(entry, TopicConfig))

    @property
    def recorded_client(self) -> str | None:
        """The client to record if none is named, from the main file; None for none."""
        from sowctl.config.recorded_client import parse_recorded_client

        return parse_recorded_client(self.document.sources[0].text) if self.document.sources else None

    @property
    def modules(self) -> tuple[ModuleConfig, ...]:
        """The modules that a server would load, in file order."""
        from sowctl.config.actions import read_modules

        return read_modules(self.document.top)

    @property
    def functions(self) -> tuple[FunctionConfig, ...]:
        """The functions that modules would add to expressions, in file order."""
        from sowctl.config.actions import read_functions

        return read_functions(self.document.top)

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions, in file order."""
        from sowctl.config.actions import read_actions

        return read_actions(self.document.top)

    def find_entries(self, name: str, message_type: str | None = None) -> tuple[SowEntry, ...]:
        """The entries of this name; several if they have different message types."""
        return tuple(
            entry
            for entry in self.sow
            if entry.name == name and (message_type is None or entry.message_type == message_type)
        )


def format_file_name(file_name: str, name: str, message_type: str) -> str:
    """A FileName with ``%n`` replaced by ``Name.MessageType``; a slash in the name becomes ``%2F``."""
    # Name and type together, because two topics may share a name (behaviour 1.9).
    return file_name.replace("%n", f"{name}.{message_type}".replace("/", "%2F"))


def escape_file_name(name: str) -> str:
    """A name for use in the names of exported files, snapshots and queue states: % and / become ``%25`` and ``%2F``.

    Different names stay different, unlike in :func:`format_file_name`, whose names of stores must not change.
    """
    return name.replace("%", "%25").replace("/", "%2F")

"""Build the model from a document: ``load_instance``, which every command calls.

It checks only the modelled elements (SOW entries, the transaction log, message types) and stops at the first error;
everything else is trusted, and nothing is parsed that needs the expression language. The full check is
:func:`sowctl.config.validate.validate_config`. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from sowctl.config.document import Document, ElementNode
from sowctl.config.elements.journal import TRANSACTION_LOG
from sowctl.config.elements.sow import HISTORY, SOW, TOPIC
from sowctl.config.load import read_document
from sowctl.config.model import (
    Expiration,
    History,
    InstanceConfig,
    JournalTopic,
    KeyGenerator,
    MessageTypeConfig,
    SowEntry,
    TopicConfig,
    TransactionLog,
    format_file_name,
)
from sowctl.config.node_values import (
    parse_node_path,
    read_child_value,
    read_entry_name,
    read_hash_indexes,
    read_options,
    read_section_texts,
)
from sowctl.config.problems import build_config_error, build_node_finding
from sowctl.config.rules.load_rules import find_load_errors
from sowctl.config.structure import check_element
from sowctl.config.topic_patterns import compile_any_search, is_pattern
from sowctl.findings import Finding, Level
from sowctl.remote.place import is_file_url, resolve_place

if TYPE_CHECKING:
    from sowctl.messages.definition import TypeDefinition

Coverage: TypeAlias = Callable[[str, str], bool]
"""``(topic name, message type) -> bool``: whether the topic is journalled."""
MIN_JOURNAL_BYTES = 10 << 20
"""Minimum journal size; a smaller JournalSize is raised to it."""
_MIN_JOURNAL_DECIMAL_BYTES = 10_000_000


def load_instance(
    path: str | Path,
    *,
    environment: Mapping[str, str],
    defines: Mapping[str, str] | None = None,
    root: Path | None = None,
) -> InstanceConfig:
    """Load a configuration for the engine; ``root`` (default: the file's directory) is the base of its paths.

    Raises :class:`~sowctl.errors.ConfigError`: as :func:`sowctl.config.load.read_document`, or with the code of the
    first rule that a modelled element breaks (SOW-CFG-1NN structure, -2NN between fields, -3NN between elements).
    """
    document = read_document(path, environment=environment, defines=defines, root=root)
    # Only errors that stop an instance stop a command; all others are for ``config validate`` and ``config lint``.
    # Generated lazily, so that the first error ends the checks.
    for finding in _find_violations(document.top):
        if finding.level >= Level.ERROR:
            raise build_config_error(finding)
    return build_instance(document)


def _find_violations(top: ElementNode) -> Iterator[Finding]:
    if not top.find_text("Name"):
        yield build_node_finding("S004", top, "instance Name is required", "add <Name>")
    # A section may have either of two names, but only one of them.
    for tags in (("SOW", "TopicMetaData"), ("TransactionLog",)):
        sections = list(top.find_all(*tags))
        if len(sections) > 1:
            yield build_node_finding(
                "S003", sections[1], f"{sections[1].tag} may appear only once in AMPSConfig", "merge the two"
            )
    for section in top.find_all("SOW", "TopicMetaData"):
        for entry in section.children:
            row = SOW.find_child(entry.tag)
            if row is not None:
                yield from check_element(entry, row)
    for section in top.find_all("TransactionLog"):
        yield from check_element(section, TRANSACTION_LOG)
    for section in top.find_all("MessageTypes"):
        from sowctl.config.elements.connections import MESSAGE_TYPES

        yield from check_element(section, MESSAGE_TYPES)
    yield from find_load_errors(top)


def build_instance(document: Document) -> InstanceConfig:
    """The model of a document in which the modelled elements break no rule."""
    top = document.top
    name = top.find_text("Name") or ""
    log = top.find("TransactionLog")
    regex_topics = (top.find_text("RegexTopicSupport") or "true").lower() not in ("false", "disabled")
    transaction_log = None if log is None else _build_transaction_log(log, document.root, regex_topics)
    journalled = build_coverage(transaction_log)
    section = top.find("SOW", "TopicMetaData")
    entries = section.children if section is not None else ()
    section = top.find("MessageTypes")
    types = tuple(_build_message_type(node) for node in section.find_all("MessageType")) if section is not None else ()
    return InstanceConfig(
        name=name,
        group=top.find_text("Group") or name,
        path=document.path,
        directory=document.directory,
        root=document.root,
        sow=tuple(entry for node in entries if (entry := _build_entry(node, document.root, journalled)) is not None),
        transaction_log=transaction_log,
        message_types=types,
        document=document,
        types=_build_definitions(types, document.root),
    )


def build_coverage(log: TransactionLog | None) -> Coverage:
    """:meth:`TransactionLog.covers_topic`, prepared for many topics."""
    if log is None:
        return lambda name, message_type: False
    # Names by a set and all patterns of a type in one search, so that a topic is not compared with every log entry.
    exact = {topic.ref for topic in log.topics}
    patterns: dict[str, list[str]] = {}
    for topic in log.topics if log.regex_topics else ():
        if is_pattern(topic.name):
            patterns.setdefault(topic.message_type, []).append(topic.name)
    searches = {kind: compile_any_search(names, strict=True) for kind, names in patterns.items()}

    def covers(name: str, message_type: str) -> bool:
        search = searches.get(message_type)
        return (name, message_type) in exact or (search is not None and search(name))

    return covers


def _build_entry(node: ElementNode, root: Path, journalled: Coverage) -> SowEntry | None:
    row = SOW.find_child(node.tag)
    if row is None:
        return None
    if row is TOPIC:
        return _build_topic(node, root, journalled)
    from sowctl.config.derived_entries import read_derived_entry

    return read_derived_entry(node, row)


def _build_topic(node: ElementNode, root: Path, journalled: Coverage) -> TopicConfig:
    name, message_type = read_entry_name(node), node.find_text("MessageType") or ""
    keys = tuple(parse_node_path(key) for key in node.find_all("Key"))
    generator = node.find("KeyGenerator")
    # One of three sources of keys (behaviour 1.1); that a topic has only one was checked before.
    key_mode: Literal["fields", "user", "module"] = "fields" if keys else "user" if generator is None else "module"
    durability = read_child_value(node, TOPIC, "Durability")
    file_name = node.find_text("FileName") or None
    file = None
    # A transient topic has no file, even if it has a FileName.
    if file_name is not None and durability == "persistent":
        file = root / format_file_name(file_name, name, message_type)
    slab_size, slabs = _read_slabs(node)
    return TopicConfig(
        name=name,
        message_type=message_type,
        keys=keys,
        key_domain=node.find_text("KeyDomain") or name,
        key_generator=None
        if generator is None
        else KeyGenerator(generator.find_text("Module") or "", read_options(generator), generator.place),
        key_mode=key_mode,
        file=file,
        file_name=file_name,
        durability=durability,
        recovery_point=read_child_value(node, TOPIC, "RecoveryPoint"),
        expiration=_build_expiration(node),
        slab_size=slab_size,
        initial_slab_count=slabs,
        hash_indexes=read_hash_indexes(node),
        indexes=tuple(parse_node_path(index) for index in node.find_all("Index")),
        expected_key_count_hint=read_child_value(node, TOPIC, "ExpectedKeyCountHint"),
        history=_build_history(node),
        preprocessing=read_section_texts(node, "Preprocessing"),
        enrichment=read_section_texts(node, "Enrichment"),
        pattern=node.find_text("Pattern") or None,
        journalled=journalled(name, message_type),
        place=node.place,
        node=node,
    )


def _build_expiration(node: ElementNode) -> Expiration:
    kind, nanoseconds = read_child_value(node, TOPIC, "Expiration")
    return Expiration(kind, nanoseconds // 1000)


def _build_history(node: ElementNode) -> History | None:
    section = node.find("History")
    if section is None:
        return None
    return History(
        read_child_value(section, HISTORY, "Window") // 1000, read_child_value(section, HISTORY, "Granularity") // 1000
    )


def _read_slabs(node: ElementNode) -> tuple[int, int]:
    """Slab size in bytes and number of slabs; derived from the retired sizes if the present ones are absent."""
    size, count = read_child_value(node, TOPIC, "SlabSize"), read_child_value(node, TOPIC, "InitialSlabCount")
    if node.find("RecordSize", "InitialSize", "IncrementSize") is not None:
        # Each present size overrides the retired ones (behaviour 11.31).
        step = read_child_value(node, TOPIC, "IncrementSize")
        if node.find("SlabSize") is None:
            size = read_child_value(node, TOPIC, "RecordSize") * step
        if node.find("InitialSlabCount") is None:
            count = -(-read_child_value(node, TOPIC, "InitialSize") // step)
    return size, count


def _build_transaction_log(node: ElementNode, root: Path, regex_topics: bool) -> TransactionLog:
    archive = node.find_text("JournalArchiveDirectory")
    size = read_child_value(node, TRANSACTION_LOG, "JournalSize")
    client_age = read_child_value(node, TRANSACTION_LOG, "InactiveClientAckExpiration")
    topics = tuple(
        JournalTopic(topic.find_text("Name") or "", topic.find_text("MessageType") or "", topic.place)
        for topic in node.find_all("Topic")
    )
    return TransactionLog(
        directory=root / (node.find_text("JournalDirectory") or ""),
        archive_directory=resolve_place(root, archive) if archive else None,
        # 10MB is the floor, whether a kilobyte has 1000 or 1024 bytes; less counts as 10MB (S044).
        journal_size=size if size >= _MIN_JOURNAL_DECIMAL_BYTES else MIN_JOURNAL_BYTES,
        flush_interval_us=read_child_value(node, TRANSACTION_LOG, "FlushInterval") // 1000,
        preallocated=read_child_value(node, TRANSACTION_LOG, "PreallocatedJournalFiles"),
        topics=topics,
        regex_topics=regex_topics,
        direct_io=read_child_value(node, TRANSACTION_LOG, "O_DIRECT"),
        inactive_client_ack_expiration_us=None if client_age is None else client_age // 1000,
        place=node.place,
        archive_is_file_url=archive is not None and is_file_url(archive),
    )


def _build_definitions(types: Sequence[MessageTypeConfig], root: Path) -> Mapping[str, TypeDefinition]:
    """The definitions of message types by name; parts of composite types are earlier ones, else built-in ones.

    Invalid values were rejected before.
    """
    found: dict[str, TypeDefinition] = {}
    for given in types:
        # In file order: a part may be an earlier type of the file, which then overrides a built-in one.
        found[given.name] = _build_definition(given, found, root)
    return found


def _build_definition(given: MessageTypeConfig, earlier: Mapping[str, TypeDefinition], root: Path) -> TypeDefinition:
    from sowctl.messages.definition import TypeDefinition

    settings = given.settings
    parts = settings.get("MessageType", ())
    return TypeDefinition(
        name=given.name,
        kind=given.module,
        field_separator=bytes([int(_find_first(settings, "FieldSeparator", "1"))]),
        # Of duplicate members the first counts unless this option is off (behaviour C136).
        first_wins=_find_first(settings, "EarlyTerminationOptimization", "true").lower() not in ("false", "disabled"),
        parts=tuple(earlier.get(part) or TypeDefinition(part, part) for part in parts),
        fields=settings.get("Field", ()),
        proto_type=_find_first(settings, "Type", ""),
        proto_file=_find_first(settings, "ProtoFile", ""),
        proto_paths=settings.get("ProtoPath", ()),
        directory=str(root),
        place=str(given.place),
    )


def _find_first(settings: Mapping[str, tuple[str, ...]], tag: str, default: str) -> str:
    texts = settings.get(tag)
    return texts[0] if texts else default


def _build_message_type(node: ElementNode) -> MessageTypeConfig:
    settings: dict[str, tuple[str, ...]] = {}
    for child in node.children:
        if child.tag not in ("Name", "Module"):
            settings[child.tag] = (*settings.get(child.tag, ()), child.text)
    name = node.find_text("Name") or ""
    return MessageTypeConfig(name, node.find_text("Module") or name, settings, node.place, node)

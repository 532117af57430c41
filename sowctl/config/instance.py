"""From a document to the model: ``load_instance``, which every command calls.

It checks what the model holds (SOW entries, the transaction log, message types) and stops at the first error there;
everything else is trusted, and nothing is parsed that needs the expression language. The full check is
:func:`sowctl.config.validate.validate`. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from sowctl.config.document import Document, ElementNode
from sowctl.config.elements.journal import TRANSACTION_LOG
from sowctl.config.elements.sow import HISTORY, SOW, TOPIC
from sowctl.config.load import load
from sowctl.config.matching import any_search, is_pattern
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
    file_of,
)
from sowctl.config.problems import as_error, at_node
from sowctl.config.reading import get, hash_indexes, name_of, options_of, path_of, texts_of
from sowctl.config.rules.at_load import first_error
from sowctl.config.structure import check
from sowctl.findings import Finding, Level
from sowctl.remote.place import placed

if TYPE_CHECKING:
    from sowctl.messages.definition import TypeDefinition

Coverage: TypeAlias = Callable[[str, str], bool]
"""Whether a topic, by name and message type, is journalled."""
JOURNAL_FLOOR = 10 << 20
"""The size that a smaller JournalSize is raised to."""
_DECIMAL_FLOOR = 10_000_000


def load_instance(
    path: str | Path,
    *,
    environment: Mapping[str, str],
    defines: Mapping[str, str] | None = None,
    root: Path | None = None,
) -> InstanceConfig:
    """Load a configuration as the engine sees it; ``root`` (default: the file's directory) is the base of its paths.

    Raises :class:`~sowctl.errors.ConfigError`: as :func:`sowctl.config.load.load`, or with the code of the first rule
    that a modelled element breaks (SOW-CFG-1NN structure, -2NN between fields, -3NN between elements).
    """
    document = load(path, environment=environment, defines=defines, root=root)
    # Only what stops an instance stops a command; everything else is for ``config validate`` and ``config lint``.
    # Generated one by one, so that the first error ends the checking.
    for finding in _broken(document.top):
        if finding.level >= Level.ERROR:
            raise as_error(finding)
    return build(document)


def _broken(top: ElementNode) -> Iterator[Finding]:
    if not top.value("Name"):
        yield at_node("S004", top, "instance Name is required", "add <Name>")
    # A section may be written under two names; one of each is one too many.
    for tags in (("SOW", "TopicMetaData"), ("TransactionLog",)):
        sections = list(top.all(*tags))
        if len(sections) > 1:
            yield at_node("S003", sections[1], f"{sections[1].tag} may appear only once in AMPSConfig", "merge the two")
    for section in top.all("SOW", "TopicMetaData"):
        for entry in section.children:
            row = SOW.child(entry.tag)
            if row is not None:
                yield from check(entry, row)
    for section in top.all("TransactionLog"):
        yield from check(section, TRANSACTION_LOG)
    for section in top.all("MessageTypes"):
        from sowctl.config.elements.connections import MESSAGE_TYPES

        yield from check(section, MESSAGE_TYPES)
    yield from first_error(top)


def build(document: Document) -> InstanceConfig:
    """The model of a document that broke no rule of the modelled elements."""
    top = document.top
    name = top.value("Name") or ""
    log = top.find("TransactionLog")
    regex_topics = (top.value("RegexTopicSupport") or "true").lower() not in ("false", "disabled")
    transaction_log = None if log is None else _transaction_log(log, document.root, regex_topics)
    journalled = _coverage(transaction_log)
    section = top.find("SOW", "TopicMetaData")
    entries = section.children if section is not None else ()
    section = top.find("MessageTypes")
    types = tuple(_message_type(node) for node in section.all("MessageType")) if section is not None else ()
    return InstanceConfig(
        name=name,
        group=top.value("Group") or name,
        path=document.path,
        directory=document.directory,
        root=document.root,
        sow=tuple(entry for node in entries if (entry := _entry(node, document.root, journalled)) is not None),
        transaction_log=transaction_log,
        message_types=types,
        document=document,
        types=_definitions(types, document.root),
    )


def _coverage(log: TransactionLog | None) -> Coverage:
    """:meth:`TransactionLog.covers`, made ready for many topics."""
    if log is None:
        return lambda name, message_type: False
    # Names by a set and all patterns of a type in one search: a topic is not compared with every entry of the log.
    exact = {(topic.name, topic.message_type) for topic in log.topics}
    patterns: dict[str, list[str]] = {}
    for topic in log.topics if log.regex_topics else ():
        if is_pattern(topic.name):
            patterns.setdefault(topic.message_type, []).append(topic.name)
    searches = {kind: any_search(names, strict=True) for kind, names in patterns.items()}

    def covers(name: str, message_type: str) -> bool:
        search = searches.get(message_type)
        return (name, message_type) in exact or (search is not None and search(name))

    return covers


def _entry(node: ElementNode, root: Path, journalled: Coverage) -> SowEntry | None:
    row = SOW.child(node.tag)
    if row is None:
        return None
    if row is TOPIC:
        return _topic(node, root, journalled)
    from sowctl.config.derived import derived_entry

    return derived_entry(node, row)


def _topic(node: ElementNode, root: Path, journalled: Coverage) -> TopicConfig:
    name, message_type = name_of(node), node.value("MessageType") or ""
    keys = tuple(path_of(key) for key in node.all("Key"))
    generator = node.find("KeyGenerator")
    # One of three ways to keys (behaviour 1.1); that a topic has only one of them was checked before.
    key_mode: Literal["fields", "user", "module"] = "fields" if keys else "user" if generator is None else "module"
    durability = get(node, TOPIC, "Durability")
    file_name = node.value("FileName") or None
    file = None
    # A transient topic has no file, whatever FileName says.
    if file_name is not None and durability == "persistent":
        file = root / file_of(file_name, name, message_type)
    slab_size, slabs = _slabs(node)
    return TopicConfig(
        name=name,
        message_type=message_type,
        keys=keys,
        key_domain=node.value("KeyDomain") or name,
        key_generator=None
        if generator is None
        else KeyGenerator(generator.value("Module") or "", options_of(generator), generator.place),
        key_mode=key_mode,
        file=file,
        file_name=file_name,
        durability=durability,
        recovery_point=get(node, TOPIC, "RecoveryPoint"),
        expiration=_expiration(node),
        slab_size=slab_size,
        initial_slab_count=slabs,
        hash_indexes=hash_indexes(node),
        indexes=tuple(path_of(index) for index in node.all("Index")),
        expected_key_count_hint=get(node, TOPIC, "ExpectedKeyCountHint"),
        history=_history(node),
        preprocessing=texts_of(node, "Preprocessing"),
        enrichment=texts_of(node, "Enrichment"),
        pattern=node.value("Pattern") or None,
        journalled=journalled(name, message_type),
        place=node.place,
        node=node,
    )


def _expiration(node: ElementNode) -> Expiration:
    kind, nanoseconds = get(node, TOPIC, "Expiration")
    return Expiration(kind, nanoseconds // 1000)


def _history(node: ElementNode) -> History | None:
    section = node.find("History")
    if section is None:
        return None
    return History(get(section, HISTORY, "Window") // 1000, get(section, HISTORY, "Granularity") // 1000)


def _slabs(node: ElementNode) -> tuple[int, int]:
    """Slab size in bytes and number of slabs; the retired sizes say both where the present ones are absent."""
    size, count = get(node, TOPIC, "SlabSize"), get(node, TOPIC, "InitialSlabCount")
    if node.find("RecordSize", "InitialSize", "IncrementSize") is not None:
        # The present sizes win where they are given, each by itself (behaviour 11.31).
        step = get(node, TOPIC, "IncrementSize")
        if node.find("SlabSize") is None:
            size = get(node, TOPIC, "RecordSize") * step
        if node.find("InitialSlabCount") is None:
            count = -(-get(node, TOPIC, "InitialSize") // step)
    return size, count


def _transaction_log(node: ElementNode, root: Path, regex_topics: bool) -> TransactionLog:
    archive = node.value("JournalArchiveDirectory")
    size = get(node, TRANSACTION_LOG, "JournalSize")
    client_age = get(node, TRANSACTION_LOG, "InactiveClientAckExpiration")
    topics = tuple(
        JournalTopic(topic.value("Name") or "", topic.value("MessageType") or "", topic.place)
        for topic in node.all("Topic")
    )
    return TransactionLog(
        directory=root / (node.value("JournalDirectory") or ""),
        archive_directory=placed(root, archive) if archive else None,
        # 10MB is the floor, whether a kilobyte has 1000 or 1024 bytes; less counts as 10MB (S044).
        journal_size=size if size >= _DECIMAL_FLOOR else JOURNAL_FLOOR,
        flush_interval_us=get(node, TRANSACTION_LOG, "FlushInterval") // 1000,
        preallocated=get(node, TRANSACTION_LOG, "PreallocatedJournalFiles"),
        topics=topics,
        regex_topics=regex_topics,
        direct_io=get(node, TRANSACTION_LOG, "O_DIRECT"),
        inactive_client_ack_expiration_us=None if client_age is None else client_age // 1000,
        place=node.place,
    )


def _definitions(types: Sequence[MessageTypeConfig], root: Path) -> Mapping[str, TypeDefinition]:
    """The definitions of message types by name; the parts of composite types are earlier ones, else built-in ones.

    Values of wrong kinds were refused before.
    """
    found: dict[str, TypeDefinition] = {}
    for given in types:
        # In the order of the file: a part may be an earlier type of it, which then wins over a built-in one.
        found[given.name] = _definition(given, found, root)
    return found


def _definition(given: MessageTypeConfig, earlier: Mapping[str, TypeDefinition], root: Path) -> TypeDefinition:
    from sowctl.messages.definition import TypeDefinition

    settings = given.settings
    parts = settings.get("MessageType", ())
    return TypeDefinition(
        name=given.name,
        kind=given.module,
        field_separator=bytes([int(_first(settings, "FieldSeparator", "1"))]),
        # Of members given twice the first counts unless this says otherwise (behaviour C136).
        first_wins=_first(settings, "EarlyTerminationOptimization", "true").lower() not in ("false", "disabled"),
        parts=tuple(earlier.get(part) or TypeDefinition(part, part) for part in parts),
        fields=settings.get("Field", ()),
        proto_type=_first(settings, "Type", ""),
        proto_file=_first(settings, "ProtoFile", ""),
        proto_paths=settings.get("ProtoPath", ()),
        directory=str(root),
        place=str(given.place),
    )


def _first(settings: Mapping[str, tuple[str, ...]], tag: str, default: str) -> str:
    texts = settings.get(tag)
    return texts[0] if texts else default


def _message_type(node: ElementNode) -> MessageTypeConfig:
    settings: dict[str, tuple[str, ...]] = {}
    for child in node.children:
        if child.tag not in ("Name", "Module"):
            settings[child.tag] = (*settings.get(child.tag, ()), child.text)
    name = node.value("Name") or ""
    return MessageTypeConfig(name, node.value("Module") or name, settings, node.place, node)

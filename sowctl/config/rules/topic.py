"""Rules of SOW/Topic: identity, storage and history of one topic, and conflicts between topics."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from sowctl.config import expression_texts
from sowctl.config.document import ElementNode
from sowctl.config.kinds import Wrong, read_expiration
from sowctl.config.model import format_file_name
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import QUEUE_KINDS, SubjectEntry
from sowctl.config.rules.survey import Survey
from sowctl.config.suggestions import has_misspelled_child
from sowctl.journal.format import build_own_files_pattern
from sowctl.remote.place import is_url, parse_local_path
from sowctl.values.topicref import TopicRef
from sowctl.values.units import parse_interval

SERVER_TOPICS = frozenset({"/AMPS/ClientStatus", "/AMPS/SOWStats", "/AMPS/Tx/Checkpoint"})
"""Topics of the server that a SOW may record."""


def _read_durability(node: ElementNode) -> str:
    return (node.find_text("Durability", "Duration") or "persistent").lower()


def persistent_without_file(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a persistent topic, which is the default, has no FileName.

    Why: there is no file for its records, so the topic cannot be created.
    Example: a Topic with only Name, MessageType and Key.
    Instead: add ``<FileName>./sow/%n.sow</FileName>``, or ``<Durability>transient</Durability>`` if the records need
    not be kept.
    """
    if _read_durability(node) == "persistent" and node.find("FileName") is None:
        if has_misspelled_child(node, "FileName") or (
            node.find("Durability", "Duration") is None and has_misspelled_child(node, "Durability")
        ):
            return
        hint = "add <FileName>./sow/%n.sow</FileName>, or <Durability>transient</Durability>"
        yield Problem(node, "Durability is persistent, but FileName is missing", hint)


def history_with_expiration(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a topic with History whose Expiration is not disabled.

    Why: versions must be kept for the window of the History; expiration would remove them earlier.
    Example: ``<Expiration>30s</Expiration>`` beside ``<History>``.
    Instead: remove Expiration, or write ``disabled``; History removes old versions by itself.
    """
    expiration = node.find("Expiration")
    if expiration is not None and node.find("History") is not None and expiration.text.lower() != "disabled":
        yield Problem(expiration, "Expiration must be disabled when History is present", "remove one of the two")


MAX_LIFETIME_NANOSECONDS = parse_interval("400000w")
"""7,665 years: a longer lifetime that begins in this century ends after the year 9999."""


def lifetime_beyond_dates(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an Expiration of more than 400000w.

    Why: it ends beyond the year 9999, the last that has a date, so the records never expire.
    Example: ``<Expiration>500000w</Expiration>``.
    Instead: remove Expiration or write ``enabled`` to keep the records, or write a shorter lifetime.
    """
    expiration = node.find("Expiration")
    if expiration is None:
        return
    try:
        lifetime = read_expiration(expiration.text)[1]
    # Unreadable values are reported by the rule about them.
    except (ValueError, Wrong):
        return
    if lifetime > MAX_LIFETIME_NANOSECONDS:
        message = f"Expiration {expiration.text} ends beyond the year 9999: the records never expire"
        yield Problem(expiration, message, "remove <Expiration> to keep the records, or write a shorter lifetime")


def pattern_excludes(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a topic with Pattern also has History, Preprocessing or Enrichment.

    Why: the logical topics share one definition, which does not support these elements.
    Example: ``<Pattern>^/regional/</Pattern>`` with ``<History>``.
    Instead: define the topics that need it one by one, before the Pattern topic.
    """
    if node.find("Pattern") is None:
        return
    for child in node.find_all("History", "Preprocessing", "Enrichment"):
        yield Problem(child, f"a Pattern topic cannot have {child.tag}", "define such topics by name")


def domain_without_key(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: KeyDomain in a topic without Key.

    Why: the domain separates generated keys; keys that publishers or a module supply have none.
    Example: ``<KeyDomain>Shipping</KeyDomain>`` and no ``<Key>``.
    Instead: add the Key fields, or remove KeyDomain.
    """
    domain = node.find("KeyDomain")
    # S002 reports a misspelt Key, which the domain belongs to.
    if domain is not None and node.find("Key") is None and not has_misspelled_child(node, "Key"):
        yield Problem(domain, "KeyDomain requires at least one Key", "add <Key>, or remove KeyDomain")


def key_and_generator(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: Key and KeyGenerator in one topic.

    Why: both would determine the identity of a record, and it is unclear which one applies.
    Example: ``<Key>/id</Key>`` beside ``<KeyGenerator>``.
    Instead: keep one; a generator gets its fields from its own Options.
    """
    generator = node.find("KeyGenerator")
    if generator is not None and node.find("Key") is not None:
        yield Problem(generator, "Key and KeyGenerator exclude each other", "keep one of the two")


def empty_history(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a History window of zero, or a granularity above the window.

    Why: such a history keeps nothing.
    Example: ``<Window>1m</Window><Granularity>1h</Granularity>``.
    Instead: make the window cover the past that you query, and the granularity a fraction of it.
    """
    history = node.find("History")
    if history is None:
        return
    window, granularity = history.find("Window"), history.find("Granularity")
    if window is None or granularity is None:
        return
    try:
        width, step = parse_interval(window.text), parse_interval(granularity.text)
    except ValueError:
        return
    if width == 0:
        yield Problem(
            window, "Window must be greater than zero", "write the time for which versions are kept, such as 1d"
        )
    elif step > width:
        yield Problem(granularity, "Granularity is greater than Window", "the history would be empty")


def defined_twice(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: two SOW entries with the same name and message type.

    Why: the pair of name and message type is the identity of a topic.
    Example: two Topics ``orders`` of type json.
    Instead: rename one; another message type makes another topic.
    """
    seen: dict[TopicRef, dict[str, SubjectEntry]] = {}
    for entry in survey.entries:
        if not entry.name or not entry.type or survey.is_repeated(entry.node):
            continue
        # R029 reports a queue with the name of a Topic.
        kind = "queue" if entry.kind in QUEUE_KINDS else entry.kind
        kinds = seen.setdefault(entry.ref, {})
        other = next((kinds[had] for had in kinds if {had, kind} != {"queue", "Topic"}), None)
        kinds.setdefault(kind, entry)
        if other is not None:
            message = f"'{entry.name}' of type {entry.type} is defined twice (first at {other.node.place})"
            yield Problem(entry.node, message, "rename or remove one of them")


def shared_file(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: two persistent topics with the same file, after ``%n`` is replaced.

    Why: a file holds one topic; two writers of one file destroy each other's records.
    Example: ``<FileName>./sow/all.sow</FileName>`` in two Topics.
    Instead: use ``%n`` in FileName, which is different for every topic.
    """
    first: dict[str, SubjectEntry] = {}
    for entry in survey.entries:
        file = entry.node.find("FileName")
        if entry.kind != "Topic" or file is None or not file.text or _read_durability(entry.node) != "persistent":
            continue
        path = os.path.normpath(survey.root / format_file_name(file.text, entry.name, entry.type))
        other = first.setdefault(path, entry)
        # A topic that is defined twice (R020) has only one file.
        if other.ref != entry.ref:
            message = f"FileName '{file.text}' is shared by '{other.name}' and '{entry.name}'"
            yield Problem(file, message, "use %n in FileName, or use different files")


def file_of_the_instance(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: FileName names a file of the journal, or the configuration itself.

    Why: a store cannot be the same file as its journal or configuration; sowctl refuses to write such a topic.
    Example: ``<FileName>journal/shop.0000000000.journal</FileName>`` beside
    ``<JournalDirectory>journal</JournalDirectory>`` in the instance ``shop``.
    Instead: give the topic a file of its own, such as ``./sow/%n.sow``.
    """
    file, entry = node.find("FileName"), survey.find_entry(node)
    if file is None or not file.text or _read_durability(node) != "persistent":
        return
    # Links are resolved, because a store that is a link to the journal would destroy it as well.
    path = (survey.root / format_file_name(file.text, entry.name, entry.type)).resolve()
    places = ("JournalDirectory", "JournalArchiveDirectory")
    logs = [
        where.text
        for log in survey.find_nodes("TransactionLog")
        for where in log.find_all(*places)
        if not is_url(where.text)
    ]
    hint = "use a separate file for the topic, such as ./sow/%n.sow"
    own = build_own_files_pattern(survey.top.find_text("Name") or "").fullmatch(path.name)
    if own and path.parent in {(survey.root / parse_local_path(text)).resolve() for text in logs}:
        yield Problem(file, f"FileName '{file.text}' is a journal file", hint)
    elif path in {Path(one.place.file).resolve() for one in (survey.top, node, file) if one.place.file}:
        yield Problem(file, f"FileName '{file.text}' is the configuration itself", hint)


_SIDE_FILE_PATTERN = re.compile(
    r"\.(?:sow|queue)(?:-[a-z]+|\.new(?:-[0-9-]+)?|\.(?:damaged|replaced)-[0-9]+)|"
    r"\.(?:memo|asked)(?:\.new-[0-9]+)?|\.sow-(?:views|memo|runs)/.*|\.journal\.(?:torn|cut)-[0-9]+|\.queue"
)
"""Suffixes of the files beside stores, journals and queue states (``sow-store(5)``)."""


def name_of_side_file(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: FileName has a suffix that sowctl uses for files beside stores and journals, such as ``orders.sow-lock``.

    Why: the store of another topic could have a side file of that name, and each would overwrite the other. Commands
    that clean up or search for stores also ignore such a file.
    Example: ``<FileName>./sow/orders.sow-writer</FileName>``.
    Instead: choose another name, such as ``./sow/%n.sow``.
    """
    file, entry = node.find("FileName"), survey.find_entry(node)
    if file is None or not file.text or is_url(file.text) or _read_durability(node) != "persistent":
        return
    name = format_file_name(file.text, entry.name, entry.type)
    if re.search(f"(?:{_SIDE_FILE_PATTERN.pattern})$", str(name)):
        hint = "give the topic a file of its own, such as ./sow/%n.sow"
        yield Problem(file, f"FileName '{file.text}' has the suffix of a file beside stores", hint)


def written_at_url(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: FileName of a topic, or JournalDirectory, is the URL of another file system.

    Why: stores are mapped into memory, and journals are written under locks, which only local files support. Only
    JournalArchiveDirectory can be a URL: finished files are sent there.
    Example: ``<JournalDirectory>s3://lake/journal</JournalDirectory>``.
    Instead: name a local directory, and use the URL as JournalArchiveDirectory.
    """
    for found in node.find_all("FileName", "JournalDirectory"):
        if is_url(found.text) or found.text.startswith("file:"):
            yield Problem(
                found,
                f"{found.tag} '{found.text}' is a URL, but must be a local path",
                "write a path; only JournalArchiveDirectory can be a URL",
            )


def recovery_without_journal(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: RecoveryPoint in a topic that the transaction log does not record.

    Why: it specifies where recovery starts in the journal, and this topic has no journal.
    Example: ``<RecoveryPoint>now</RecoveryPoint>`` in a topic that TransactionLog does not name.
    Instead: add the topic to TransactionLog, or remove RecoveryPoint.
    """
    point, entry = node.find("RecoveryPoint"), survey.find_entry(node)
    if point is not None and entry.name and entry.type and not survey.is_journaled(entry.name, entry.type):
        hint = "add the topic to TransactionLog, or remove RecoveryPoint"
        yield Problem(point, "RecoveryPoint has no effect: topic is not journaled", hint)


def key_enriched(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: Enrichment writes a Key field.

    Why: the key of the record is computed before Enrichment, so the record would no longer match its key.
    Example: ``UPPER(/id) AS /id`` in the Enrichment of a topic with ``<Key>/id</Key>``.
    Instead: write key fields in Preprocessing, which runs first.
    """
    keys = {key.text for key in node.find_all("Key")}
    for section in node.find_all("Enrichment"):
        for field in section.find_all("Field"):
            definition = expression_texts.parse_definition(field, projection=False)
            if definition is not None and str(definition.destination) in keys:
                message = f"Enrichment writes Key field {definition.destination}; the key is already fixed"
                yield Problem(field, message, "move it to Preprocessing")


def behind_pattern(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an entry whose name an earlier Pattern topic matches.

    Why: the first definition that matches a name is used, so this one is never reached.
    Example: Topic ``/orders/eu`` after a Topic with ``<Pattern>^/orders/</Pattern>``.
    Instead: move it before the Pattern topic.
    """
    patterns = [(e, e.node.find_text("Pattern")) for e in survey.entries if e.kind == "Topic"]
    earlier = [(entry, pattern) for entry, pattern in patterns if pattern]
    for entry in survey.entries if earlier else ():
        for other, pattern in earlier:
            if other.number >= entry.number or other.type != entry.type or not entry.name:
                continue
            # The first matching entry counts (behaviour 1.8).
            if survey.matches_pattern(pattern or "", entry.name):
                message = f"'{entry.name}' matches the Pattern of '{other.name}' defined earlier; it is never reached"
                yield Problem(entry.node, message, f"move it before {other.label}")
                break


def pattern_not_journaled(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Pattern topic whose own Name is in no Topic of the transaction log.

    Why: the journal uses the physical Name; the logical names that the Pattern matches are not considered.
    Example: Topic ``orders`` with ``<Pattern>^/orders/</Pattern>`` where the journal records ``^/orders/``.
    Instead: add ``orders`` to TransactionLog with the same message type.
    """
    entry = survey.find_entry(node)
    if node.find("Pattern") is None or not survey.journal_topics or not entry.name:
        return
    if not survey.is_journaled(entry.name, entry.type):
        message = f"Pattern topic '{entry.name}' is not journaled: the journal must match its physical Name"
        yield Problem(node, message, f"add {entry.name} to TransactionLog with MessageType {entry.type}")


def reserved_name(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an entry with a name below ``/AMPS/``, other than a topic that records what the server publishes there.

    Why: these names are reserved for the server; an entry may conflict with one of its topics, now or in a later
    version.
    Example: a View ``/AMPS/Totals``.
    Instead: choose another name.
    """
    entry = survey.find_entry(node)
    if entry.name.startswith("/AMPS/") and not (entry.kind == "Topic" and entry.name in SERVER_TOPICS):
        yield Problem(node, f"'{entry.name}' is under /AMPS/, reserved for the server", "choose another name")

"""Rules of Replication/Destination."""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config.document import ElementNode
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import QUEUE_KINDS
from sowctl.config.rules.survey import Survey
from sowctl.config.suggestions import has_misspelled_child
from sowctl.config.topic_patterns import is_pattern


def destination_incomplete(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Destination with neither Name nor Group.

    Why: it is unknown which instance is meant.
    Example: a Destination with only Topic, SyncType and Transport.
    Instead: add the Name of the instance, or its Group.
    """
    if node.find("Name", "Group") is None and not (
        has_misspelled_child(node, "Name") or has_misspelled_child(node, "Group")
    ):
        yield Problem(node, "Destination requires a Name or a Group", "add one of them")


def replicated_not_journaled(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a replicated topic that the transaction log does not record.

    Why: replication reads the log.
    Example: a Destination Topic ``orders``, and no such Topic in TransactionLog.
    Instead: add the topic to TransactionLog.
    """
    for topic in node.find_all("Topic"):
        name, kind = topic.find("Name"), topic.find_text("MessageType")
        if name is None or not name.text or not kind or survey.is_journaled(name.text, kind):
            continue
        if any(entry.kind in QUEUE_KINDS for entry in survey.find_entries(name.text, kind)):
            # The messages of a queue are those of its underlying topic: R008 checks that the log records it.
            continue
        if (
            # Whether two patterns have a common name is not decided: the log is assumed to record the intended topics.
            survey.has_regex_topics
            and is_pattern(name.text)
            and any(
                recorded == kind and (is_pattern(pattern) or survey.matches_topic(name.text, pattern))
                for pattern, recorded in survey.journal_topics
            )
        ):
            continue
        # If a pattern or a type of the log is unusable, another rule reports it, and nothing can be concluded for this
        # topic.
        if not survey.can_use_pattern(name.text) or not survey.knows_types(
            kind, *(recorded for _, recorded in survey.journal_topics)
        ):
            continue
        message = f"replicated topic '{name.text}' is not in the transaction log"
        yield Problem(name, message, f"add it to TransactionLog with MessageType {kind}")


def local_queue_replicated(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a LocalQueue is replicated.

    Why: its messages belong to one instance.
    Example: a Destination Topic with the name of a LocalQueue.
    Instead: make it a Queue, or remove it from the Destination.
    """
    queues = [entry for entry in survey.entries if entry.kind == "LocalQueue" and entry.name]
    for topic in node.find_all("Topic"):
        name = topic.find("Name")
        for queue in queues:
            if name is not None and topic.find_text("MessageType") == queue.type and name.text == queue.name:
                yield Problem(name, f"LocalQueue {queue.name} is replicated", "remove it, or make it a Queue")


def replication_to_itself(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a Destination with the Name of this instance.

    Why: an instance does not replicate to itself; usually the file was copied from the other instance.
    Example: ``<Name>one</Name>`` at the top and in a Destination.
    Instead: write the Name of the other instance.
    """
    name = node.find("Name")
    if name is not None and name.text and name.text == survey.top.find_text("Name"):
        message = f"Destination Name equals this instance's own Name '{name.text}'"
        yield Problem(name, message, "write the Name of the other instance")


def too_few_sync(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: Tuning asks for more synchronous destinations than there are.

    Why: an action that downgrades destinations keeps this number synchronous, so it can never downgrade one.
    Example: ``<MinSyncDestinations>2</MinSyncDestinations>`` with one Destination of SyncType sync.
    Instead: lower the number, or make another Destination synchronous.
    """
    for section in node.find_all("Replication"):
        for wanted in section.find_all("MinSyncDestinations"):
            kinds = [(other.find_text("SyncType") or "").lower() for other in survey.find_nodes("Destination")]
            have = kinds.count("sync")
            if wanted.text.isascii() and wanted.text.isdigit() and int(wanted.text[:18]) > have:
                message = f"MinSyncDestinations exceeds the number of sync destinations ({have})"
                yield Problem(wanted, message, f"write {have} or less, or add a Destination with SyncType sync")

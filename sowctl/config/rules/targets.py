"""Rules of the objects that actions refer to: topics, transports, queues and directories must exist.

Run from :mod:`sowctl.config.rules.table`; :mod:`sowctl.config.rules.actions` checks the modules and options of an
action. Ruled by ``sow-config(5)``, actions.
"""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config.document import ElementNode
from sowctl.config.rules.actions import iterate_steps
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import QUEUE_KINDS
from sowctl.config.rules.survey import Survey
from sowctl.config.topic_patterns import is_pattern
from sowctl.findings import Level


def archive_without_directory(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: archive-journal, and TransactionLog has no JournalArchiveDirectory.

    Why: there is nowhere to move the journals to.
    Example: only ``amps-action-do-archive-journal``.
    Instead: add JournalArchiveDirectory to TransactionLog.
    """
    archives = any(log.find("JournalArchiveDirectory") is not None for log in survey.find_nodes("TransactionLog"))
    for _, module, _ in iterate_steps(node):
        if module.text == "amps-action-do-archive-journal" and not archives:
            message = "archive-journal action without JournalArchiveDirectory"
            yield Problem(module, message, "add <JournalArchiveDirectory> to TransactionLog")


def undefined_target(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an action on a topic or transport that is not defined; an error if it must be a SOW topic.

    Why: it does nothing, or fails each time it runs.
    Example: delete-sow on ``order`` where the topic is ``orders``.
    Instead: write the defined name.
    """
    transports = {other.find_text("Name") for other in survey.find_nodes("Transport")}
    for step, module, _ in iterate_steps(node):
        options = step.find("Options")
        if options is None:
            continue
        topic, transport = options.find("Topic"), options.find("Transport")
        # A step on the SOW fails without its topic, and one that watches records has nothing to watch; a message may be
        # published to an undefined topic.
        needed = module.text.endswith("-sow") or module.text in _ENTRY_MODULES
        kind = options.find_text("MessageType")
        known = kind is None or survey.knows_types(kind)
        if (
            topic is not None
            and known
            and _is_fixed_name(topic.text, survey)
            and not survey.find_entries(topic.text, kind)
        ):
            message = f"action refers to undefined Topic '{topic.text}'"
            if needed:
                level = Level.ERROR if module.text.endswith("-sow") else Level.WARNING
                yield Problem(topic, message, "define it in SOW", level=level)
            elif module.text in _MESSAGE_MODULES and not _is_known_topic(topic.text, kind, survey):
                yield Problem(topic, message, "write the defined name, or ignore this rule for ad hoc topics")
        if transport is not None and "{{" not in transport.text and transport.text not in transports:
            message = f"action refers to undefined Transport '{transport.text}'"
            yield Problem(transport, message, "name a Transport")


_ENTRY_MODULES = frozenset(
    {
        "amps-action-on-oof-message",
        "amps-action-on-sow-expire-message",
        "amps-action-on-sow-delete-message",
        "amps-action-on-message-condition-timeout",
        "amps-action-on-alert",
    }
)
"""Modules that need an entry of SOW as their topic."""
_MESSAGE_MODULES = frozenset(
    {
        "amps-action-on-publish-message",
        "amps-action-on-deliver-message",
        "amps-action-on-subscribe",
        "amps-action-on-unsubscribe",
        "amps-action-do-publish-message",
    }
)
"""Modules whose topic may be undefined."""


def _is_known_topic(name: str, kind: str | None, survey: Survey) -> bool:
    """Return True if the journal, a Pattern or the server defines a topic that is no entry of SOW."""
    patterns = (entry.node.find_text("Pattern") for entry in survey.entries if entry.kind == "Topic")
    server = name.startswith("/AMPS/")
    return (
        server
        or survey.is_journaled(name, kind)
        or any(survey.matches_pattern(found, name) for found in patterns if found)
    )


def _is_fixed_name(name: str, survey: Survey) -> bool:
    # Text in double braces is filled in when the action runs.
    return bool(name) and "{{" not in name and not (survey.has_regex_topics and is_pattern(name))


_LEASING_TOPIC_TAGS = {
    "amps-action-on-publish-message": "Topic",
    "amps-action-on-oof-message": "Topic",
    "amps-action-on-message-condition-timeout": "Topic",
    "amps-action-on-alert": "Topic",
    "amps-action-on-message-affinity": "DataTopic",
}
"""Modules that subscribe to a topic, and the option that names it."""


def queue_monitored(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an action that watches the messages of a queue.

    Why: it subscribes to the queue, and the subscription leases messages that the action never acknowledges.
    Example: ``amps-action-on-publish-message`` with the name of a Queue as Topic.
    Instead: watch the underlying topic of the queue.
    """
    for step, module, _ in iterate_steps(node):
        options = step.find("Options")
        topic = (
            options.find(_LEASING_TOPIC_TAGS[module.text])
            if options is not None and module.text in _LEASING_TOPIC_TAGS
            else None
        )
        if topic is None or options is None:
            continue
        for entry in survey.find_entries(topic.text, options.find_text("MessageType")):
            if entry.kind in QUEUE_KINDS:
                below = entry.node.find_text("UnderlyingTopic")
                hint = f"watch {below}, its underlying topic" if below else "watch its underlying topic"
                yield Problem(topic, f"{module.text} monitors a queue, '{topic.text}'", hint)
                break

"""Topics whose names match a regular expression, in configuration order.

Called by :mod:`sowctl.engine.topics.targets`, which decides when a text is such an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.config.model import Logical, OtherEntry, TopicConfig
from sowctl.config.topic_patterns import compile_topic_search, is_pattern
from sowctl.errors import ConfigError, MissingError, UsageError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.values.topicref import TopicRef


def iterate_matching_topics(
    instance: Instance, pattern: str, message_type: str | None, *, derived: bool = False
) -> Iterator[TopicConfig]:
    """Yield the topics that a regular expression matches, in configuration order.

    With ``derived`` also views, conflated topics and queues, as the topics that readers see. Logical topics of a
    Pattern topic without records, or of its copies, are not included.
    """
    if instance.config is None:
        return
    matches = compile_search(pattern)
    for entry in instance.config.sow:
        if message_type not in (None, entry.message_type):
            continue
        if isinstance(entry, TopicConfig):
            if matches(entry.name):
                yield entry
            elif entry.pattern is not None and has_records(instance, entry):
                yield replace(entry, logical=Logical(pattern, regex=True))
        elif derived and (matches(entry.name) or renames_logical_topics(entry)):
            # The expression language is loaded only by commands that read such an entry.
            from sowctl.engine.topics.derived_topics import find_root_topic, require_derived_topic

            topic = require_derived_topic(instance.config, entry)
            if matches(entry.name):
                yield topic
            elif topic.pattern is not None and has_records(instance, find_root_topic(instance.config, topic)):
                yield replace(topic, logical=Logical(pattern, regex=True))


def make_unmatched_error(instance: Instance, pattern: str, message_type: str | None, *, derived: bool) -> MissingError:
    """Return the error for a pattern without a match; its hint names a match that has no store."""
    what = "topic, view, conflated topic or queue" if derived else "topic"
    others = () if derived or instance.config is None else instance.config.sow
    matches = compile_search(pattern)
    found = [
        entry
        for entry in others
        if isinstance(entry, OtherEntry) and message_type in (None, entry.message_type) and matches(entry.name)
    ]
    hint = "sowctl info lists the topics"
    if found:
        hint = f"{found[0].name!r} is a {found[0].kind}, which has no store of its own"
    return MissingError("SOW-ENG-014", f"pattern {pattern!r} matches no {what}", hint=hint)


def renames_logical_topics(entry: OtherEntry) -> bool:
    """Return whether a conflated topic renames the logical topics of its source."""
    if entry.kind != "ConflatedTopic":
        return False
    from sowctl.config.derived_entries import ConflatedTopic  # loaded with the configuration that has such an entry

    return isinstance(entry, ConflatedTopic) and entry.topic_format not in (None, "%n")


def compile_search(pattern: str) -> Callable[[str], bool]:
    """Compile an expression that was given as a target: its errors are usage errors, not configuration errors."""
    try:
        return compile_topic_search(pattern)
    except ConfigError as error:
        # A star without anything to repeat is a shell pattern.
        words = f"topic patterns are regular expressions: {'.' + pattern.strip()!r}"
        hint = words if pattern.strip().startswith("*") else error.hint
        raise UsageError("SOW-ENG-033", error.message, hint=hint) from None


def matches_topic_name(instance: Instance, pattern: str, message_type: str | None) -> bool:
    """Return whether a regular expression matches the name of a configured topic."""
    matches = compile_search(pattern) if is_pattern(pattern) else pattern.__eq__
    return any(matches(topic.name) for topic in instance.topics if message_type in (None, topic.message_type))


def has_records(instance: Instance, topic: TopicConfig) -> bool:
    """Return whether a topic has anything to read."""
    if topic.file is not None and topic.file.exists():
        return True
    return topic.journalled and is_in_journal(instance, topic.ref)


def is_in_journal(instance: Instance, ref: TopicRef) -> bool:
    """Return whether the journal has an entry of a topic."""
    from sowctl.engine.topics.positions import has_log, open_log

    if not has_log(instance):
        return False
    with open_log(instance) as journal:
        return journal.find_topic_state(ref).last_txid > 0

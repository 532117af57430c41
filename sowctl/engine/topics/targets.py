"""Resolving a TARGET: a configured topic, a file, or a pattern of topic names (``sowctl(1)``).

A name that matches the Pattern of a topic is one of its logical topics: the first entry of the configuration that a
name matches is used, for reading and for publishing alike (``behaviour`` 1.8).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sowctl.config.model import Logical, OtherEntry, SowEntry, TopicConfig
from sowctl.config.topic_patterns import compile_topic_search, is_pattern
from sowctl.engine.topics.patterns import (
    compile_search,
    has_records,
    is_in_journal,
    iterate_matching_topics,
    make_unmatched_error,
    matches_topic_name,
    renames_logical_topics,
)
from sowctl.errors import MissingError, UsageError
from sowctl.remote.place import is_url, parse_url
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from sowctl.config.document import ElementNode
    from sowctl.config.model import TransactionLog
    from sowctl.engine.instance import Instance

MAX_LOGICAL_NAME_BYTES = 4096
"""Maximum length of the name of a logical topic, in bytes."""
WITHOUT_SOW = "SOW-ENG-016"
"""The code of the error for a topic that only the transaction log names."""
QUEUE_KINDS = ("Queue", "LocalQueue", "GroupLocalQueue")
"""The kinds of entries that are queues."""
NewTopicResolver = Callable[[str, str], TopicConfig | None]
"""Returns the definition of a new topic by name and message type, None if the pattern does not match it."""
_TYPED_TARGET_PATTERN = re.compile(r"\[([^\]]+)\]\.\[([^\]]+)\]")


class Target(Struct, frozen=True):
    """A target to read: a configured topic, or the bare path of a store."""

    topic: TopicConfig | None = None
    path: Path | None = None


def resolve_targets(
    instance: Instance, text: str, message_type: str | None = None, *, literal: bool = False, derived: bool = False
) -> list[Target]:
    """Return the targets that ``text`` names, in configuration order; with ``derived``, for readers, also views.

    In order of precedence: an exact name; an existing path with ``/`` or ``.sow``; the name of a logical topic; unless
    ``literal``, a regular expression on the names. An expression includes a whole Pattern topic if it matches the
    topic's own Name, and otherwise those of its records whose logical names it matches. A text with characters of an
    expression (other than dots) is no logical name unless ``literal``.

    Raises UsageError ``SOW-ENG-030`` (ambiguous), ``SOW-ENG-033`` (invalid regular expression), ``SOW-ENG-080`` (a file
    of another kind), MissingError ``SOW-ENG-012`` (unknown name), ``SOW-ENG-013`` (no such file, or a URL).
    """
    name, message_type = split_target(text, message_type)
    logical = literal or _is_logical_name(name)
    exact = _find_exact_topic(instance, name, message_type, logical=logical, derived=derived)
    path = instance.working / text
    # A topic's own name takes precedence over a file of that name; a Pattern, which matches nearly any name, does not.
    if exact is None or exact.logical is not None:
        if ("/" in text or text.endswith(".sow")) and path.is_file():
            from sowctl.engine.topics.storefile import refuse_other_kind

            refuse_other_kind(path)
            return [Target(path=path)]
        if text.endswith(".sow") and exact is None and not matches_topic_name(instance, name, message_type):
            raise _make_no_file_error(text)
    if exact is not None:
        return [Target(topic=exact)]
    # Exact names were looked up first, so a topic with dots in its name was found by it.
    if not literal and is_pattern(name):
        found = [
            Target(topic=topic) for topic in iterate_matching_topics(instance, name, message_type, derived=derived)
        ]
        if found:
            return found
        error = make_unmatched_error(instance, name, message_type, derived=derived)
    else:
        error = make_missing_error(instance, name, message_type)
    # Names may look like URLs; only if there is no such name, the text is the URL of a file.
    raise _make_no_file_error(text) if is_url(text) and _is_logical_name(name) and error.code != WITHOUT_SOW else error


def remove_repeated_targets(targets: Sequence[Target]) -> list[Target]:
    """Return the targets in order, with each topic, file and record once.

    Patterns that include parts of one Pattern topic become one target; a logical topic that one of them includes is
    dropped.
    """
    taken: dict[TopicRef, list[TopicConfig]] = {}
    for target in targets:
        if target.topic is not None and target.topic.logical_name is None:
            taken.setdefault(target.topic.ref, []).append(target.topic)
    united = {ref: _unite_parts(topics) for ref, topics in taken.items()}
    found: dict[tuple[Path | TopicRef | None, str | None], Target] = {}
    for target in targets:
        topic = target.topic
        if topic is None:
            found.setdefault((target.path, None), target)
            continue
        whole, name = united.get(topic.ref), topic.logical_name
        if whole is None or (name is not None and whole.logical is not None and not whole.logical.contains_topic(name)):
            found.setdefault((topic.ref, name), target)
        else:
            found.setdefault((topic.ref, None), Target(topic=whole))
    return list(found.values())


def unite_followed_topics(topics: Sequence[TopicConfig]) -> list[TopicConfig]:
    """Return each topic once, with all of its matching parts: a subscription follows a topic with one feed."""
    parts: dict[TopicRef, list[TopicConfig]] = {}
    for topic in topics:
        parts.setdefault(topic.ref, []).append(topic)
    return [_unite_parts(members) for members in parts.values()]


def _unite_parts(topics: Sequence[TopicConfig]) -> TopicConfig:
    """Return the topic of which ``topics`` are parts, with all of them."""
    logicals: list[Logical] = []
    for topic in topics:
        if topic.logical is None:
            return topic
        logicals.append(topic.logical)
    if len(set(logicals)) == 1:
        return topics[0]
    text = "|".join(dict.fromkeys(logical.text for logical in logicals))
    return replace(topics[0], logical=Logical(text, regex=True, parts=tuple(dict.fromkeys(logicals))))


def _make_no_file_error(text: str) -> MissingError:
    """Return the error for a text that can only be the name of a file, which does not exist."""
    if not is_url(text):
        return MissingError("SOW-ENG-013", "the file does not exist", place=text)
    return MissingError(
        "SOW-ENG-013",
        "the file is not local: stores can only be read from a file system of this machine",
        place=str(parse_url(text)),
        hint="copy the file to this machine; sowctl journal dump and sowctl replay read an archived journal at its URL",
    )


def find_topic(instance: Instance, text: str, message_type: str | None = None, *, derived: bool = False) -> TopicConfig:
    """Return the single SOW topic, or logical topic, of this exact name; with ``derived`` also a view.

    Raises as :func:`resolve_targets`.
    """
    name, message_type = split_target(text, message_type)
    found = _find_exact_topic(instance, name, message_type, logical=True, derived=derived)
    if found is None:
        raise make_missing_error(instance, name, message_type)
    return found


def find_publish_topic(instance: Instance, text: str, message_type: str | None = None) -> TopicConfig:
    """Return the topic that messages published to this name go to; one that only the transaction log names has no store
    and no keys.

    Messages for a queue go to its DefaultPublishTarget (``behaviour`` 5.4). Raises as :func:`find_topic`.

    UsageError ``SOW-ENG-032`` for the Name of a Pattern topic that is none of its logical topics.
    """
    name, message_type = split_target(text, message_type)
    takers = _list_owning_entries(instance, name, message_type, logical=True)
    if len(takers) == 1 and takers[0].kind in QUEUE_KINDS:
        # Already loaded by the configuration, since it has such an entry.
        from sowctl.config.derived_entries import Queue

        queue = takers[0]
        assert isinstance(queue, Queue)
        if queue.default_publish_target != name:
            return find_publish_topic(instance, queue.default_publish_target, queue.message_type)
        # A queue with its own name as the topic, which only the transaction log names.
        only = _find_journal_only_topic(instance, name, queue.message_type)
        if only is None:
            raise make_missing_error(instance, name, message_type)
        return only
    found = _find_exact_topic(instance, name, message_type, logical=True)
    if found is None:
        only = _find_journal_only_topic(instance, name, message_type)
        if only is None:
            raise make_missing_error(instance, name, message_type)
        return only
    if found.pattern is None:
        return found
    if found.logical is None:
        if not compile_topic_search(found.pattern)(name):
            raise make_unnamed_logical_error(found)
        # The Name of a Pattern topic may match its own Pattern: then it is one of its logical topics.
        found = replace(found, logical=Logical(name))
    return found


def resolve_followed_topics(
    instance: Instance, text: str, message_type: str | None = None, *, literal: bool = False, replayed: bool = False
) -> list[TopicConfig]:
    """Return the topics that a subscription to ``text`` follows: those of :func:`resolve_targets`, and topics that only
    the log records.

    Of topics without a SOW, a pattern includes those in the journal; :func:`build_new_topic_resolver` finds those that
    are added later. If messages are ``replayed``, a pattern includes only topics with messages in a journal. Raises as
    :func:`resolve_targets`, and UsageError ``SOW-FOL-003`` for a file, which does not show new messages.
    """
    name, kind = split_target(text, message_type)
    logical = literal or _is_logical_name(name)
    try:
        # An exactly named topic that cannot be replayed is rejected by name later.
        named = _find_exact_topic(instance, name, kind, logical=True, derived=True) if replayed else None
        derived = not replayed or (named is not None and named.derived is not None)
        targets = resolve_targets(instance, text, message_type, literal=literal, derived=derived)
    except MissingError:
        # A transaction log that records .* covers every text, including those that are patterns here.
        only = _find_journal_only_topic(instance, name, kind, logical=logical)
        known = (
            _list_journal_only_topics(instance, name, kind) if only is None and not literal and is_pattern(name) else []
        )
        if only is None and not known:
            raise
        return [only] if only is not None else known
    if any(target.topic is None for target in targets):
        raise UsageError(
            "SOW-FOL-003", "a file cannot be subscribed to", place=text, hint="name its topic, with --config"
        )
    topics = [target.topic for target in targets if target.topic is not None]
    exact = len(topics) == 1 and (topics[0].name == name or topics[0].logical_name == name)
    if exact or literal:
        return topics
    if replayed:
        topics = _filter_recorded_topics(instance, topics)
    return topics + _list_journal_only_topics(instance, name, kind)


def _filter_recorded_topics(instance: Instance, topics: list[TopicConfig]) -> list[TopicConfig]:
    """Return the topics matched by a pattern that a journal records; all if it records none of them."""
    found = [topic for topic in topics if topic.journalled]
    for topic in topics if found else ():
        # Logical topics of a Pattern topic are matched by names that may have no messages.
        if not topic.journalled and topic.logical is None:
            instance.notify(f"topic {topic.label!r} has no journal: it is not replayed")
    return found or topics


def build_new_topic_resolver(
    instance: Instance, text: str, message_type: str | None = None, *, literal: bool = False
) -> NewTopicResolver | None:
    """Return the resolver of topics that a subscription to ``text`` adds later; None if there can be none.

    The resolver takes name and message type of a topic that is new in the journal, and returns its definition, or None
    if the pattern does not match it: a topic that only the transaction log names, or the logical topics of a Pattern
    topic without earlier messages.
    """
    pattern, wanted = split_target(text, message_type)
    log, config = instance.log, instance.config
    if literal or log is None or config is None or not is_pattern(pattern):
        return None
    if _find_exact_topic(instance, pattern, wanted, logical=_is_logical_name(pattern), derived=True) is not None:
        return None
    matches = compile_search(pattern)

    def joined(name: str, kind: str) -> TopicConfig | None:
        if wanted not in (None, kind):
            return None
        for topic in config.topics:
            if topic.ref == (name, kind):
                parts = topic.pattern is not None and not matches(name)
                return replace(topic, logical=Logical(pattern, regex=True)) if parts else None
        if not log.covers_topic(name, kind) or not matches(name):
            return None
        return _make_journal_only_topic(log, config.document.top, name, kind)

    return joined


def _is_logical_name(name: str) -> bool:
    """Return whether a text may name a topic outside the configuration; dots do not make it a pattern."""
    return not is_pattern(name.replace(".", ""))


def _list_journal_only_topics(instance: Instance, pattern: str, message_type: str | None) -> list[TopicConfig]:
    """Return the topics without a SOW in the journal that match a pattern, ordered by name."""
    from sowctl.engine.topics.positions import has_log, open_log

    log, config = instance.log, instance.config
    if log is None or config is None or not has_log(instance):
        return []
    with open_log(instance) as journal:
        refs = sorted(journal.read_topic_states())
    matches, known = compile_search(pattern), {topic.ref for topic in config.topics}
    return [
        _make_journal_only_topic(log, config.document.top, name, kind)
        for name, kind in refs
        if (name, kind) not in known and message_type in (None, kind) and log.covers_topic(name, kind) and matches(name)
    ]


def make_unnamed_logical_error(topic: TopicConfig) -> UsageError:
    """Return the error for a Pattern topic of which one logical topic must be named."""
    return UsageError(
        "SOW-ENG-032",
        f"{topic.name!r} is a Pattern topic for all logical topics that match {topic.pattern!r}",
        hint="name a logical topic",
        topic=topic.name,
    )


def split_target(text: str, message_type: str | None = None) -> tuple[str, str | None]:
    """Split ``[type].[name]`` into name and message type; any other text is a name, of the given type."""
    match = _TYPED_TARGET_PATTERN.fullmatch(text)
    return (match[2], match[1]) if match else (text, message_type)


def _find_exact_topic(
    instance: Instance, name: str, message_type: str | None, *, logical: bool, derived: bool = False
) -> TopicConfig | None:
    """Return the topic of this name, restricted to a logical topic if the name is one; the latter only with
    ``logical``.

    With ``derived`` also a view, as the topic that readers see.
    """
    takers = _list_owning_entries(instance, name, message_type, logical=logical, derived=derived)
    # A topic is identified by name and message type together (behaviour 1.1), so a name alone may be ambiguous.
    if len(takers) > 1:
        forms = ", ".join(f"[{entry.message_type}].[{name}]" for entry in takers)
        raise UsageError(
            "SOW-ENG-030",
            f"{name!r} is ambiguous: it exists with several message types",
            hint=f"write one of {forms}",
        )
    if not takers:
        return None
    entry = takers[0]
    if isinstance(entry, OtherEntry):
        if not derived:
            from sowctl.engine.topics.derived_topics import make_not_topic_error

            raise make_not_topic_error(entry)
        from sowctl.engine.topics.derived_topics import require_derived_topic

        # The expression language is loaded only by commands that read such an entry.
        assert instance.config is not None
        return require_derived_topic(instance.config, entry)
    return entry


def _list_owning_entries(
    instance: Instance, name: str, message_type: str | None, *, logical: bool, derived: bool = False
) -> list[SowEntry]:
    """Return the first entry of every message type that a name belongs to."""
    found: dict[str, SowEntry] = {}
    logical = logical and _is_storable_name(name)
    for entry in instance.config.sow if instance.config is not None else ():
        kind = entry.message_type
        if message_type not in (None, kind):
            continue
        part = _find_conflated_part(instance, entry, name) if logical and derived else None
        # The first entry that a name belongs to is used, and later ones are ignored (behaviour 1.8), but names of
        # conflated topics take precedence over those of logical topics (11.51).
        if kind in found and not (entry.kind == "ConflatedTopic" and (entry.name == name or part is not None)):
            continue
        if entry.name == name:
            found[kind] = entry
        elif logical and isinstance(entry, TopicConfig) and entry.pattern and compile_topic_search(entry.pattern)(name):
            found[kind] = replace(entry, logical=Logical(name))
        elif part is not None:
            found[kind] = part
    return list(found.values())


def _find_conflated_part(instance: Instance, entry: SowEntry, name: str) -> TopicConfig | None:
    """Return the logical topic that a conflated topic has under a name, as readers see it; None without one."""
    if not isinstance(entry, OtherEntry):
        return None
    # The expression language is loaded only if such a name may be meant.
    if not renames_logical_topics(entry) or instance.config is None:
        return None
    from sowctl.engine.topics.derived_topics import find_logical_part

    return find_logical_part(instance.config, entry, name)


def select_readable_targets(
    instance: Instance, targets: Sequence[Target], is_told: Callable[[Instance, TopicConfig], bool] | None = None
) -> Sequence[Target]:
    """Return the targets among several that have something to read; all if none has, or if there is only one.

    So a topic without messages does not make a query of all topics of a pattern fail. ``is_told`` decides for a view,
    conflated topic or queue.
    """
    if len(targets) < 2:
        return targets

    def is_there(topic: TopicConfig) -> bool:
        if topic.derived is not None:
            return is_told is None or is_told(instance, topic)
        return _is_readable(instance, topic)

    found = [target for target in targets if target.topic is None or is_there(target.topic)]
    # If none has anything to read, all are kept, so that the error of the first one says what is missing.
    return found or targets


def select_publishable_targets(instance: Instance, targets: list[Target]) -> list[Target]:
    """Return the targets of a pattern whose records can be published elsewhere; all if none can, or for a single
    target.

    Views, conflated topics and queues are derived from these: if a queue were published, too, it would restore deleted
    records of its source. A note lists the omitted ones.
    """
    derived = [
        target.topic.label for target in targets if target.topic is not None and target.topic.derived is not None
    ]
    if not 0 < len(derived) < len(targets):
        return targets
    names = ", ".join(derived)
    instance.notify(f"derived topics were left out, because envelopes are for publishing: {names}; name one to read it")
    return [target for target in targets if target.topic is None or target.topic.derived is None]


def _is_readable(instance: Instance, topic: TopicConfig) -> bool:
    if topic.file is None and not topic.journalled:
        # Without a store and a journal, records live as long as the session that published them.
        return instance.opened(topic) is not None
    return has_records(instance, topic)


def _find_journal_only_topic(
    instance: Instance, name: str, message_type: str | None, *, logical: bool = True
) -> TopicConfig | None:
    """Return a topic without a SOW that the transaction log records (``behaviour`` 11.32), None without one.

    Unless ``logical``, only if the names in the transaction log are not patterns.
    """
    log, config = instance.log, instance.config
    if log is None or config is None or not _is_storable_name(name) or (log.regex_topics and not logical):
        return None
    kinds = {topic.message_type for topic in log.topics if message_type in (None, topic.message_type)}
    kinds = {kind for kind in kinds if log.covers_topic(name, kind)}
    if len(kinds) > 1:
        forms = ", ".join(f"[{kind}].[{name}]" for kind in sorted(kinds))
        raise UsageError(
            "SOW-ENG-030",
            f"{name!r} is ambiguous: the TransactionLog has it with several message types",
            hint=f"write one of {forms}",
        )
    if not kinds:
        return None
    return _make_journal_only_topic(log, config.document.top, name, kinds.pop())


def _make_journal_only_topic(log: TransactionLog, node: ElementNode, name: str, message_type: str) -> TopicConfig:
    """Return the definition of a topic that only the transaction log names: without keys and file, only entries."""
    from sowctl.journal.blockcodec import MAX_RAW_BYTES

    return TopicConfig.build_bare(
        name, message_type, log.place, node, key_mode="none", slab_size=MAX_RAW_BYTES, journalled=True
    )


def _is_storable_name(name: str) -> bool:
    """Return whether a record can store this name."""
    try:
        return 0 < len(name.encode()) <= MAX_LOGICAL_NAME_BYTES
    except UnicodeEncodeError:
        return False


def _format_history_hint(topic: str) -> str:
    """Return a hint with the commands that print the content of the table ``TOPIC@history`` of ``sql``."""
    from shlex import quote

    table = f"{topic}@history".replace('"', '""')
    statement = f'SELECT * FROM "{table}"'
    return f"sowctl history {quote(topic)} KEY, or sowctl sql {quote(statement)}"


def make_missing_error(instance: Instance, name: str, message_type: str | None = None) -> MissingError:
    """Return the error for an unknown name; its hint has similar names."""
    if instance.config is None:
        return MissingError(
            "SOW-ENG-015",
            f"{name!r} is not a file, and no configuration is given",
            hint="use -c CONFIG, or name a .sow file",
        )
    from sowctl.engine.topics.positions import format_dump_hint, has_entries

    log = instance.log
    kinds = {topic.message_type for topic in log.topics} if log is not None else set()
    if log is not None and any(
        message_type in (None, kind)
        and log.covers_topic(name, kind)
        and (any(one.is_named(name, kind) for one in log.topics) or is_in_journal(instance, TopicRef(name, kind)))
        for kind in kinds
    ):
        return MissingError(
            WITHOUT_SOW,
            f"topic {name!r} has no SOW: it is only in the TransactionLog",
            hint=format_dump_hint(name),
        )
    if message_type is not None and (others := instance.config.find_entries(name)):
        kinds = {other.message_type for other in others}
        text = f"topic {name!r} of type {message_type} does not exist in this configuration"
        return MissingError("SOW-ENG-012", text, hint=f"it is of type {' and '.join(sorted(kinds))}", topic=name)
    from difflib import get_close_matches

    names = [entry.name for entry in instance.config.sow]
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "sowctl info lists the topics"
    front, _, when = name.rpartition("@")
    if front in names and when == "history":
        hint = _format_history_hint(front)
    elif front in names and when:
        hint = f"to read the past of {front}, give the time as --at {when}"
    elif has_entries(instance, name, message_type):
        hint = format_dump_hint(name)
    return MissingError("SOW-ENG-012", f"topic {name!r} does not exist in this configuration", hint=hint, topic=name)

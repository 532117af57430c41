"""Resolve names of the command line to topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sowctl.config.topic_patterns import is_pattern
from sowctl.engine.topics.patterns import iterate_matching_topics
from sowctl.engine.topics.targets import Target, remove_repeated_targets, resolve_targets, split_target
from sowctl.errors import MissingError, UsageError
from sowctl.remote.place import resolve_place

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions


def find_topics(instance: Instance, names: Sequence[str], *, regex: bool | None = None) -> list[TopicConfig]:
    """The topics of these names, or all topics if there are none; patterns only with ``regex``. Raises as
    ``resolve_targets`` does.

    The name of a logical topic selects the Pattern topic that has its records. ``regex`` is None for commands without
    that option.
    """
    if not names:
        return list(instance.topics)
    found = [
        target
        for name in names
        for target in (
            resolve_targets(instance, name, literal=True)
            if regex is None
            else resolve_named_targets(instance, name, regex=regex)
        )
    ]
    # Several names may resolve to one topic, which is processed once.
    return list(dict.fromkeys(_require_topic(target).whole_topic for target in found))


def resolve_named_targets(
    instance: Instance, text: str, message_type: str | None = None, *, regex: bool
) -> list[Target]:
    """The targets of a name, which is a pattern only with ``regex``, the option of the calling command.

    Raises as ``resolve_targets`` does; the hint names the option if the text would match as a pattern.
    """
    try:
        return resolve_targets(instance, text, message_type, literal=not regex)
    except MissingError as error:
        name, kind = split_target(text, message_type)
        if not regex and is_pattern(name):
            try:
                found = list(
                    dict.fromkeys(_format_topic(topic) for topic in iterate_matching_topics(instance, name, kind))
                )
            except UsageError:
                found = []  # no expression either: the name alone is wrong
            if found:
                more = ", ..." if len(found) > 3 else ""
                error.hint = f"use --regex for a pattern, which matches {', '.join(found[:3])}{more}"
        raise


def resolve_all_named_targets(
    instance: Instance, names: Sequence[str], message_type: str | None, *, regex: bool
) -> list[Target]:
    """The targets of these names, without duplicates, in this order. Raises as :func:`resolve_named_targets`."""
    found: list[Target] = []
    for place, name in enumerate(names):
        with hint_at_filter(place):
            found += resolve_named_targets(instance, name, message_type, regex=regex)
    return remove_repeated_targets(found)


def resolve_read_targets(
    instance: Instance, names: Sequence[str], message_type: str | None, *, literal: bool = False
) -> list[Target]:
    """The targets of these names for reading, including views, without duplicates, in this order.

    Raises as ``resolve_targets`` does.
    """
    found: list[Target] = []
    for place, name in enumerate(names):
        with hint_at_filter(place):
            found += resolve_targets(instance, name, message_type, literal=literal, derived=True)
    return remove_repeated_targets(found)


@contextmanager
def hint_at_filter(place: int) -> Iterator[None]:
    """For an operand after the first that names no target, add a hint about how to give a filter or a key."""
    try:
        yield
    except MissingError as error:
        if place and error.code in ("SOW-ENG-012", "SOW-ENG-014"):
            told = 'a filter has a field, such as "/qty > 5", and a record is named with --key'
            error.hint = "; ".join(part for part in (error.hint, told) if part)
        raise


def resolve_one_target(instance: Instance, text: str, message_type: str | None) -> Target:
    """The only target of this name for reading, which may be a view.

    Raises UsageError ``SOW-CLI-023`` if a pattern matches several.
    """
    found = resolve_targets(instance, text, message_type, derived=True)
    if len(found) > 1:
        names = ", ".join(target.topic.label for target in found if target.topic is not None)
        raise UsageError("SOW-CLI-023", f"{text!r} matches several topics: {names}", hint="name one of them")
    return found[0]


def apply_archive(instance: Instance, archive: str | None, journal: str | None) -> Instance:
    """The instance with the archive of ``--archive``, which holds older files of its journal. Raises UsageError
    ``SOW-CLI-038`` if ``--journal`` names another journal, ConfigError ``SOW-ENG-020`` if there is no journal."""
    if archive is None:
        return instance
    if journal is not None:
        raise UsageError(
            "SOW-CLI-038",
            "--archive belongs to the configured journal, but --journal names another one",
            hint="remove one of them",
        )
    return instance.with_archive(resolve_place(Path(), archive))


def _format_topic(topic: TopicConfig) -> str:
    """Describe a topic that a pattern matches, possibly only in part."""
    return topic.name if topic.logical is None else f"logical topics of {topic.name}"


def _require_topic(target: Target) -> TopicConfig:
    if target.topic is None:
        raise UsageError("SOW-CLI-024", f"{target.path} is a file, not a topic", hint="name the topic")
    return target.topic


def split_journal_operands(
    words: Sequence[str] | None, topics: Sequence[str] | None
) -> tuple[tuple[str, ...], str | None]:
    """Split operands and ``--topic`` into topics and the operand that is a directory or URL: the journal to read.

    Raises UsageError ``SOW-CLI-013`` for two journals.
    """
    # An empty operand is not the working directory, as it would be for Path.
    places = [word for word in words or () if word and ("://" in word or Path(word).is_dir())]
    if len(places) > 1:
        raise UsageError("SOW-CLI-013", "the journal is given twice", hint=f"remove {places[-1]}")
    names = [word for word in words or () if word not in places]
    return (*names, *(topics or ())), places[0] if places else None


@contextmanager
def explain_missing_topic(advice: str = "") -> Iterator[None]:
    """For an operand that names no topic, add a hint about other meanings: a directory, or ``advice``."""
    try:
        yield
    except MissingError as error:
        if error.code == "SOW-ENG-012":
            told = ("a directory that does not exist is taken for a topic", advice, error.hint)
            error.hint = "; ".join(part for part in told if part)
        raise


def apply_unknown(invocation: Invocation, asked: QueryOptions, columns: str | None, *, strict: bool) -> QueryOptions:
    """Return the query's options with the handling of unknown fields, which no record has."""
    from msgspec.structs import replace

    from sowctl.values.paths import split_list

    shown = tuple(part for part in split_list(columns or "") if part.startswith(("/", "[")))
    return replace(asked, shown=shown, unknown=choose_unknown(invocation, strict=strict))


def choose_unknown(invocation: Invocation, *, strict: bool) -> Literal["ignore", "note", "error"]:
    """Choose the handling of unknown fields. Notes that will not be shown are not computed either."""
    return "error" if strict else "ignore" if invocation.settings.quiet else "note"

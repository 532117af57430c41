"""Names of the command line, looked up: which topics are meant."""

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
    """The topics of these names, all where there are none; patterns only with ``regex``. Raises as ``resolve_targets``
    does.

    The name of a logical topic stands for the Pattern topic that has its records. ``regex`` is None for commands that
    have no such option.
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
    # Several names may lead to one topic, which is worked on once.
    return list(dict.fromkeys(_require_topic(target).whole_topic for target in found))


def resolve_named_targets(
    instance: Instance, text: str, message_type: str | None = None, *, regex: bool
) -> list[Target]:
    """The targets of a name that is a pattern only with ``regex``, the option of the command that asks.

    Raises as ``resolve_targets`` does; the hint names the option where what was given would match as a pattern.
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
    """The targets of these names, each once and in this order. Raises as :func:`resolve_named_targets`."""
    found: list[Target] = []
    for place, name in enumerate(names):
        with hint_at_filter(place):
            found += resolve_named_targets(instance, name, message_type, regex=regex)
    return remove_repeated_targets(found)


def resolve_read_targets(
    instance: Instance, names: Sequence[str], message_type: str | None, *, literal: bool = False
) -> list[Target]:
    """The targets of these names, to be read, each once and in this order: views, too.

    Raises as ``resolve_targets`` does.
    """
    found: list[Target] = []
    for place, name in enumerate(names):
        with hint_at_filter(place):
            found += resolve_targets(instance, name, message_type, literal=literal, derived=True)
    return remove_repeated_targets(found)


@contextmanager
def hint_at_filter(place: int) -> Iterator[None]:
    """Say of an operand behind the first that names nothing how a filter or a key is given."""
    try:
        yield
    except MissingError as error:
        if place and error.code in ("SOW-ENG-012", "SOW-ENG-014"):
            told = 'a filter has a field, such as "/qty > 5", and a record is named with --key'
            error.hint = "; ".join(part for part in (error.hint, told) if part)
        raise


def resolve_one_target(instance: Instance, text: str, message_type: str | None) -> Target:
    """The one target of this name, to be read: a view, too.

    Raises UsageError ``SOW-CLI-023`` where a pattern matches several.
    """
    found = resolve_targets(instance, text, message_type, derived=True)
    if len(found) > 1:
        names = ", ".join(target.topic.label for target in found if target.topic is not None)
        raise UsageError("SOW-CLI-023", f"{text!r} matches several topics: {names}", hint="name one of them")
    return found[0]


def apply_archive(instance: Instance, archive: str | None, journal: str | None) -> Instance:
    """The instance with the archive that ``--archive`` names, where older files of its journal lie. Raises UsageError
    ``SOW-CLI-038`` where ``--journal`` names another journal, ConfigError ``SOW-ENG-020`` where there is no journal."""
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
    """A topic that a pattern takes, or may take a part of, in words."""
    return topic.name if topic.logical is None else f"logical topics of {topic.name}"


def _require_topic(target: Target) -> TopicConfig:
    if target.topic is None:
        raise UsageError("SOW-CLI-024", f"{target.path} is a file, not a topic", hint="name the topic")
    return target.topic


def split_journal_operands(
    words: Sequence[str] | None, topics: Sequence[str] | None
) -> tuple[tuple[str, ...], str | None]:
    """The topics among operands and ``--topic``, and the operand that is a directory or a URL: the journal to read.

    Raises UsageError ``SOW-CLI-013`` for two journals.
    """
    # An empty word is not the working directory, as it would be for Path.
    places = [word for word in words or () if word and ("://" in word or Path(word).is_dir())]
    if len(places) > 1:
        raise UsageError("SOW-CLI-013", "the journal is given twice", hint=f"remove {places[-1]}")
    names = [word for word in words or () if word not in places]
    return (*names, *(topics or ())), places[0] if places else None


@contextmanager
def explain_missing_topic(advice: str = "") -> Iterator[None]:
    """Say of an operand that names no topic what else it may have been: a directory, or what ``advice`` tells."""
    try:
        yield
    except MissingError as error:
        if error.code == "SOW-ENG-012":
            told = ("a directory that does not exist is taken for a topic", advice, error.hint)
            error.hint = "; ".join(part for part in told if part)
        raise


def apply_unknown(invocation: Invocation, asked: QueryOptions, columns: str | None, *, strict: bool) -> QueryOptions:
    """Return the query's options with the treatment of fields that no record has."""
    from msgspec.structs import replace

    from sowctl.values.paths import split_list

    shown = tuple(part for part in split_list(columns or "") if part.startswith(("/", "[")))
    return replace(asked, shown=shown, unknown=choose_unknown(invocation, strict=strict))


def choose_unknown(invocation: Invocation, *, strict: bool) -> Literal["ignore", "note", "error"]:
    """Choose the treatment of fields that no record has. Notes that are not to be seen are not looked for either."""
    return "error" if strict else "ignore" if invocation.settings.quiet else "note"

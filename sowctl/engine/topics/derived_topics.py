"""A view, conflated topic or queue as the topic that readers see: its name, type, and key fields.

Called by :mod:`sowctl.engine.topics.targets`; :mod:`sowctl.engine.views.openers` opens its records. Writers reject
derived topics (:func:`make_not_topic_error`). Specified in ``behaviour`` 5.1.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.config.derived_entries import ConflatedTopic, Queue, View
from sowctl.config.model import MAX_DERIVED_DEPTH, Expiration, Logical, OtherEntry, TopicConfig
from sowctl.config.topic_patterns import compile_topic_search
from sowctl.errors import ConfigError, MissingError, UsageError
from sowctl.expressions.syntax.nodes import Field
from sowctl.expressions.syntax.parser import find_destination, parse_grouping, parse_projection
from sowctl.values.paths import Path, Step

if TYPE_CHECKING:
    from sowctl.config.model import InstanceConfig
    from sowctl.values.paths import Path as FieldPath

_DEFAULT_SLAB_BYTES = 1 << 20


def require_derived_topic(config: InstanceConfig, entry: OtherEntry) -> TopicConfig:
    """Return :func:`build_derived_topic` of an entry; reject one that reads itself. Raises ConfigError
    ``SOW-VIW-004``."""
    refuse_circle(config, entry)
    return build_derived_topic(config, entry)


def build_derived_topic(config: InstanceConfig, entry: OtherEntry) -> TopicConfig:
    """Return the topic that readers of a derived entry see; it has no file before it is opened.

    Raises UsageError ``SOW-ENG-031`` for a kind that cannot be read.
    """
    if isinstance(entry, ConflatedTopic):
        return _make_conflated_topic(config, entry)
    if isinstance(entry, Queue):
        return _make_queue_topic(entry)
    if not isinstance(entry, View):
        raise make_not_topic_error(entry)
    return replace(
        _make_queue_topic(entry),
        keys=_find_grouping_fields(entry),
        key_domain=entry.key_domain,
        key_mode="fields",
        hash_indexes=entry.hash_indexes,
    )


def _make_queue_topic(entry: OtherEntry) -> TopicConfig:
    """Return a topic without key fields: messages of a queue are numbered, because several may have the same key."""
    return TopicConfig.build_bare(
        entry.name,
        entry.message_type,
        entry.place,
        entry.node,
        key_mode="user",
        slab_size=_DEFAULT_SLAB_BYTES,
        journalled=False,
        derived=entry,
    )


def _make_conflated_topic(config: InstanceConfig, entry: ConflatedTopic) -> TopicConfig:
    """Return a topic with the keys of its source, and with the logical topics of a Pattern topic under other names."""
    found = find_source_entry(config, entry)
    source = found if isinstance(found, TopicConfig) else build_derived_topic(config, found)
    # The key fields of the source are always indexed.
    keys = (source.keys,) if source.keys and source.keys not in entry.hash_indexes else ()
    return replace(
        source,
        name=entry.name,
        file=None,
        file_name=None,
        durability="transient",
        recovery_point="epoch",
        # Expirations in the source are changes of it, and take effect at the end of an interval (behaviour 11.44).
        expiration=Expiration("disabled"),
        hash_indexes=(*keys, *entry.hash_indexes),
        indexes=(),
        history=None,
        preprocessing=(),
        enrichment=(),
        journalled=False,
        place=entry.place,
        derived=entry,
    )


def find_source_entry(config: InstanceConfig, entry: ConflatedTopic) -> TopicConfig | OtherEntry:
    """Return the entry that a conflated topic copies. Raises MissingError ``SOW-ENG-012``."""
    found = config.find_entries(entry.underlying, entry.message_type)
    if not found:
        text = f"topic {entry.underlying!r} of type {entry.message_type} does not exist"
        raise MissingError("SOW-ENG-012", text, topic=entry.underlying)
    return found[0]


def find_root_topic(config: InstanceConfig, topic: TopicConfig) -> TopicConfig:
    """Return the topic that a conflated topic copies, directly or through others; a view, queue or topic itself."""
    while isinstance(topic.derived, ConflatedTopic):
        found = find_source_entry(config, topic.derived)
        topic = found if isinstance(found, TopicConfig) else build_derived_topic(config, found)
    return topic


def refuse_circle(config: InstanceConfig, entry: OtherEntry) -> None:
    """Raise ConfigError ``SOW-VIW-004`` if an entry reads itself, directly or through others, or if the nesting is too
    deep.

    Rules R027 and R032 of ``validate`` report both; readers do not run all rules first.
    """
    done: set[OtherEntry] = set()
    stack = [(entry, iter(_list_direct_sources(config, entry)))]
    while stack:
        current, remaining = stack[-1]
        found = next(remaining, None)
        if found is None:
            stack.pop()
            done.add(current)
            continue
        path = [one for one, _ in stack]
        if found in path:
            names = " -> ".join(one.name for one in [*path[path.index(found) :], found])
            raise ConfigError(
                "SOW-VIW-004",
                f"circular views or conflated topics: {names}",
                hint="let one of them read a Topic; sowctl validate shows where they are defined",
            )
        if len(path) >= MAX_DERIVED_DEPTH:
            raise ConfigError(
                "SOW-VIW-004",
                f"more than {MAX_DERIVED_DEPTH} views or conflated topics are nested below {entry.name!r}",
                hint="let one of them read a Topic",
            )
        if found not in done:
            stack.append((found, iter(_list_direct_sources(config, found))))


def _list_direct_sources(config: InstanceConfig, entry: OtherEntry) -> list[OtherEntry]:
    """Return the derived entries that an entry reads directly."""
    if not isinstance(entry, View | ConflatedTopic):
        return []
    # A view may omit the type if only one entry has the name (behaviour 11.52).
    found = [config.find_entries(*ref) or config.find_entries(ref.name) for ref in entry.sources]
    return [some[0] for some in found if some and isinstance(some[0], OtherEntry)]


def find_logical_part(config: InstanceConfig, entry: OtherEntry, name: str) -> TopicConfig | None:
    """Return the logical topic ``name`` of a conflated topic on a Pattern topic; None if it has none of this name, or
    if it keeps the names of its source: these belong to the source."""
    if not isinstance(entry, ConflatedTopic) or entry.topic_format is None or entry.topic_format == "%n":
        return None
    source = find_source_entry(config, entry)
    before, _, behind = entry.topic_format.partition("%n")
    inner = name.removeprefix(before).removesuffix(behind)
    if not inner or name != before + inner + behind:
        return None
    if isinstance(source, OtherEntry):
        part = find_logical_part(config, source, inner)
    elif source.pattern is not None and compile_topic_search(source.pattern)(inner):
        # Keys are those of the source: their domain is the name under which the record was published.
        domain = source.key_domain if source.shares_domain else inner
        part = replace(source, pattern=None, key_domain=domain)
    else:
        return None
    if part is None:
        return None
    shown = _make_conflated_topic(config, entry)
    return replace(shown, pattern=None, key_domain=part.key_domain, logical=Logical(name))


def make_not_topic_error(entry: OtherEntry) -> UsageError:
    """Return the error for an entry without a store where one is required."""
    return UsageError(
        "SOW-ENG-031",
        f"{entry.name!r} is a {entry.kind}, which has no store of its own",
        hint="publish to its source topics, and delete there",
        topic=entry.name,
        kind=entry.kind,
    )


# Cached per definition: a program may use its views again and again.
@lru_cache(maxsize=256)
def _find_grouping_fields(view: View) -> tuple[FieldPath, ...]:
    """Return the fields of the view's messages that have the grouping values; the source's field if no message field is
    one."""
    shown: dict[tuple[tuple[str, ...], FieldPath], FieldPath] = {}
    for text in view.projection:
        for field in parse_projection(text):
            if isinstance(field.expression, Field):
                place = Path(tuple(Step(name) for name in find_destination(field)))
                shown.setdefault((field.expression.qualifier, field.expression.path), place)
    groups = [field for text in view.grouping for field in parse_grouping(text)]
    return tuple(shown.get((field.qualifier, field.path), field.path) for field in groups)

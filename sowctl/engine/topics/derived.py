"""A view, conflated topic or queue as the topic that it is read as: its name, type, and the fields of its keys.

Called by :mod:`sowctl.engine.topics.targets`; where its records come from is the business of
:mod:`sowctl.engine.views.opening`. Whatever writes asks :func:`refuse_derived` first. Ruled by ``behaviour`` 5.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.config.derived import View
from sowctl.config.model import Expiration, OtherEntry, TopicConfig
from sowctl.errors import UsageError
from sowctl.expressions.syntax.nodes import Field
from sowctl.expressions.syntax.parse import destination_of, parse_grouping, parse_projection
from sowctl.values.paths import Path, Step

if TYPE_CHECKING:
    from sowctl.values.paths import Path as FieldPath

READABLE = ("View",)
"""The kinds of entries that can be read as topics."""
_SLAB = 1 << 20


def as_topic(entry: OtherEntry) -> TopicConfig:
    """The topic that a derived entry is read as; it has no file before it is opened.

    Raises UsageError ``SOW-ENG-031`` for a kind that cannot be read.
    """
    if not isinstance(entry, View):
        raise not_a_topic(entry)
    return TopicConfig(
        name=entry.name,
        message_type=entry.message_type,
        keys=_keys(entry),
        key_domain=entry.key_domain,
        key_generator=None,
        key_mode="fields",
        file=None,
        file_name=None,
        durability="transient",
        recovery_point="epoch",
        expiration=Expiration("disabled"),
        slab_size=_SLAB,
        initial_slab_count=1,
        hash_indexes=entry.hash_indexes,
        indexes=(),
        expected_key_count_hint=None,
        history=None,
        preprocessing=(),
        enrichment=(),
        pattern=None,
        journalled=False,
        place=entry.place,
        node=entry.node,
        derived=entry,
    )


def not_a_topic(entry: OtherEntry) -> UsageError:
    """The error for an entry that has no store of its own where one is needed."""
    return UsageError(
        "SOW-ENG-031",
        f"{entry.name!r} is a {entry.kind}, not a topic with a store of its own",
        hint="it follows the topics that it is made of: publish to these, and delete there",
        topic=entry.name,
    )


def _keys(view: View) -> tuple[FieldPath, ...]:
    """The fields of the view's messages that hold the grouping values; the source's field where none does alone."""
    shown: dict[tuple[tuple[str, ...], FieldPath], FieldPath] = {}
    for text in view.projection:
        for field in parse_projection(text):
            if isinstance(field.expression, Field):
                place = Path(tuple(Step(name) for name in destination_of(field)))
                shown.setdefault((field.expression.qualifier, field.expression.path), place)
    groups = [field for text in view.grouping for field in parse_grouping(text)]
    return tuple(shown.get((field.qualifier, field.path), field.path) for field in groups)

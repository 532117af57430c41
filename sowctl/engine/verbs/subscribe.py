"""subscribe: the records of topics at one instant, then everything that happens to them (``behaviour`` 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.engine.extensions.functions import functions_of
from sowctl.engine.following.feed import Selecting, Wanted
from sowctl.engine.following.subscription import Subscription
from sowctl.engine.options import SubscribeOptions
from sowctl.engine.search.matcher import Matcher, environment_of
from sowctl.engine.search.terms import MAX_BATCH, order_of, select_of
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.messages.base import MessageType

DEFAULTS = SubscribeOptions()

__all__ = ["SubscribeOptions", "Subscription", "subscribe"]


def subscribe(
    instance: Instance,
    topics: Sequence[TopicConfig],
    options: SubscribeOptions = DEFAULTS,
    *,
    output: int | None = None,
) -> Subscription:
    """Follow ``topics`` (:func:`~sowctl.engine.topics.targets.followed` finds them).

    ``output`` is the descriptor that events are written to, if any: a wait ends when nobody reads it any more.

    Nothing is opened before the first event is asked for. Raises UsageError (exit 2) for texts and options at once;
    iterating raises what sources and journals raise, MissingError ``SOW-FOL-001`` (exit 10) where entries were removed
    before they were read, and DamageError ``SOW-FOL-002`` (exit 5) where the journal is not the one that was followed.
    """
    _check(options, topics)
    order, directives = order_of(options.order_by), select_of(options.select)
    environment, functions = environment_of(instance), functions_of(instance)
    wanted = []
    for topic in topics:
        _check_records(topic, options)
        kind = instance.type_of(topic.message_type)
        seen = topic.key_mode == "fields"
        matcher = Matcher(options.filter, kind, topic.name, environment, seen=seen, functions=functions)
        select = None if directives is None else _selecting(kind, directives)
        wanted.append(Wanted(topic, kind, matcher, select, order, options.top_n, options.skip_n, options.batch_size))
    if _is_page(options) and not options.oof:
        instance.notify("without --oof nothing tells which records leave the page: its state cannot be followed")
    return Subscription(instance, wanted, options, output)


def _check(options: SubscribeOptions, topics: Sequence[TopicConfig]) -> None:
    if options.skip_n is not None and options.top_n is None:
        raise UsageError("SOW-QRY-010", "skip_n needs top_n", hint="add --top-n")
    if not 1 <= options.batch_size <= MAX_BATCH:
        raise UsageError("SOW-QRY-011", f"a batch size is 1 to {MAX_BATCH}, not {options.batch_size}")
    if _is_page(options) and len(topics) != 1:
        hint = "name the topic itself, not a pattern"
        raise UsageError("SOW-FOL-005", "a page that is kept is of one topic", hint=hint)


def _is_page(options: SubscribeOptions) -> bool:
    """Whether a page is followed: top_n alone only limits the records that come first (behaviour 4.1)."""
    return options.top_n is not None and options.skip_n is not None


def _check_records(topic: TopicConfig, options: SubscribeOptions) -> None:
    """Refuse what only a topic with records can give."""
    if topic.key_mode == "none" and (options.oof or options.delta or _is_page(options)):
        wish = "oof" if options.oof else "delta" if options.delta else "skip-n"
        raise UsageError(
            "SOW-FOL-004",
            f"topic {topic.name!r} has no SOW: its messages are no records that could be compared",
            hint=f"leave out --{wish}",
        )


def _selecting(kind: MessageType, directives: list[tuple[bool, tuple[str, ...]]]) -> Selecting:
    return lambda payload: kind.select(payload, directives)

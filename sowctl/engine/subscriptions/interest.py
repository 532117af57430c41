"""Subscription options, compiled and checked before anything is opened (``behaviour`` 4.1 to 4.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING, cast

import msgspec

from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.options import SubscribeOptions
from sowctl.engine.search.keytext import read_key_options
from sowctl.engine.search.matcher import Matcher, build_environment
from sowctl.engine.search.terms import MAX_BATCH_RECORDS, check_aggregation, parse_order_keys, parse_select_list
from sowctl.engine.topics.targets import QUEUE_KINDS, Target
from sowctl.errors import UsageError
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.expressions.syntax.actions import OrderKey
    from sowctl.messages.base import MessageType
    from sowctl.values.paths import Path
    from sowctl.values.topicref import TopicRef

_DEFAULT_OPTIONS = SubscribeOptions()
PayloadSelector = Callable[[bytes], bytes]


class Interest(DescribedStruct, frozen=True):
    """The followed part of one topic: filter, SOW keys if restricted, select list, order of rows."""

    config: TopicConfig
    kind: MessageType
    matcher: Matcher
    options: SubscribeOptions
    sow_keys: frozenset[bytes] | None = None
    select: PayloadSelector | None = None
    order: tuple[OrderKey, ...] = ()

    @property
    def ref(self) -> TopicRef:
        """Name and message type, as in journals."""
        return self.config.ref

    @property
    def label(self) -> str:
        """The name of the topic as users see it."""
        return self.config.label

    @property
    def has_keys(self) -> bool:
        """True if its messages have SOW keys."""
        return self.config.key_mode != "none"

    def find_followed_places(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Sequence[int]:
        """Return the indexes of the followed records. Raises as :meth:`~Matcher.find_matches`."""
        meant = self.find_followed_keys(keys)
        if len(meant) == len(keys):
            return self.matcher.find_matches(keys, values)
        found = self.matcher.find_matches([keys[at] for at in meant], [values[at] for at in meant])
        return [meant[at] for at in found]

    def find_followed_keys(self, keys: Sequence[bytes]) -> Sequence[int]:
        """Return the indexes of the followed keys, without evaluating the filter."""
        wanted = self.sow_keys
        return range(len(keys)) if wanted is None else [at for at, key in enumerate(keys) if key in wanted]

    @property
    def is_store_only(self) -> bool:
        """True if its changes are in its store and in no journal."""
        return self.has_keys and not self.config.journalled and self.config.derived is None


def compile_interests(instance: Instance, topics: Sequence[TopicConfig], options: SubscribeOptions) -> list[Interest]:
    """Compile the options for each topic. Raises UsageError (exit 2) for invalid texts and options."""
    _check_combinations(options, topics)
    order, directives = parse_order_keys(options.order_by), parse_select_list(options.select)
    environment, functions = build_environment(instance, endless=True), load_functions(instance)
    wanted = []
    for topic in topics:
        _check_record_options(topic, options)
        # A pattern may match queues and other topics: then out-of-focus events come only from the others.
        if (options.oof or options.deletes) and is_queue(topic) and len(topics) == 1:
            wish = "--oof" if options.oof else "--deletes"
            raise UsageError(
                "SOW-FOL-028",
                f"{topic.name!r} is a queue, which has no out-of-focus messages",
                hint=f"remove {wish}; sowctl queue info counts processed messages",
            )
        kind = instance.find_message_type(topic.message_type)
        _check_conflation(instance, topic, kind, options)
        seen = topic.key_mode == "fields"
        matcher = Matcher(options.filter, kind, topic.name, environment, seen=seen, functions=functions)
        keys = read_key_options(options, Target(topic=topic), None)
        sow_keys = None if keys is None else frozenset(keys)
        select = None if directives is None else _make_selector(kind, directives)
        wanted.append(Interest(topic, kind, matcher, options, sow_keys, select, order))
    if is_page(options) and not options.oof:
        instance.notify_once(
            "page without oof",
            "without --oof, the subscription does not show which records leave the page",
        )
    if (options.no_empties or options.send_keys) and not options.delta:
        instance.notify_once("deltas without delta", "--no-empties and --send-keys have no effect without --delta")
    return wanted


def is_queue(topic: TopicConfig) -> bool:
    """Return whether a topic is a queue: a message that leaves it was processed, and causes no event (behaviour
    4.2)."""
    return topic.derived is not None and topic.derived.kind in QUEUE_KINDS


def is_page(options: SubscribeOptions) -> bool:
    """Return whether the options define a page: top_n alone only limits the initial records (behaviour 4.1)."""
    return options.top_n is not None and options.skip_n is not None


_TEXT_OPTIONS = (
    "filter",
    "order_by",
    "select",
    "query_id",
    "conflation",
    "conflation_key",
    "projection",
    "grouping",
    "bookmark",
    "bookmark_not_found",
    "rate",
)
_SWITCH_OPTIONS = ("sow", "until_now", "oof", "deletes", "delta", "no_empties", "send_keys", "events")
_COUNT_OPTIONS = "top_n", "skip_n", "batch_size", "most"
_MIN_COUNTS = {"top_n": 0, "skip_n": 0, "most": 1}
_MIN_SECONDS = {"lasting": 0.0, "progress_every": 0.001, "rate_max_gap": 0.0}
"""Options that are texts, booleans, integers and seconds; with minimums for numbers."""


def check_options(options: SubscribeOptions) -> None:
    """Reject invalid option values.

    Raises TypeError for a value of the wrong type, UsageError ``SOW-FOL-026`` for a number below its minimum; both name
    the option.
    """
    for names, kinds, words in (
        (_TEXT_OPTIONS, (str,), "a text"),
        (_SWITCH_OPTIONS, (bool,), "true or false"),
        (_COUNT_OPTIONS, (int,), "an integer"),
        (_MIN_SECONDS, (int, float), "a number of seconds"),
    ):
        for name in names:
            value = getattr(options, name)
            if value is None and getattr(_DEFAULT_OPTIONS, name) is None:
                continue
            # In Python True is an int, but here it is a mistake.
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise TypeError(f"{name} must be {words}, not {type(value).__name__}: {value!r}")
    for name, keys in (("sow_keys", options.sow_keys), ("keys", options.keys)):
        # A text would be read as a list of its letters.
        if keys is not None and (isinstance(keys, str) or not all(isinstance(key, str) for key in keys)):
            raise TypeError(f"{name} must be a tuple of str, not {keys!r}")
    for name, least in (_MIN_COUNTS | _MIN_SECONDS).items():
        value = getattr(options, name)
        # NaN is not at least the minimum either.
        if value is not None and not value >= least:
            raise UsageError(
                "SOW-FOL-026",
                f"{name} must be at least {least:g}, not {value!r}",
                hint=f"increase {name}, or remove it",
            )


def _check_combinations(options: SubscribeOptions, topics: Sequence[TopicConfig]) -> None:
    check_options(options)
    if options.skip_n is not None and options.top_n is None:
        raise UsageError("SOW-QRY-010", "an offset (skip_n) requires a limit (top_n)", hint="add --limit")
    if not 1 <= options.batch_size <= MAX_BATCH_RECORDS:
        raise UsageError(
            "SOW-QRY-011", f"the batch size must be from 1 to {MAX_BATCH_RECORDS}, not {options.batch_size}"
        )
    if is_page(options) and len(topics) != 1:
        hint = "name a single topic instead of a pattern"
        raise UsageError("SOW-FOL-005", "a page requires a single topic", hint=hint)
    check_aggregation(options.projection, options.grouping, options.select, topics)
    if options.projection is not None and (options.order_by or options.top_n is not None):
        raise UsageError(
            "SOW-FOL-012", "groups of a subscription cannot be ordered", hint="remove --order-by, --top-n and --skip-n"
        )
    _check_delete_options(options)
    _check_replay_options(options)


def _check_delete_options(options: SubscribeOptions) -> None:
    """Reject sow_delete events if other events report deletions, or if messages are not records."""
    if not options.deletes:
        return
    if options.sow:
        words = "deletions are printed only without initial records"
        raise _make_replay_error(words, "add --no-sow, or use --oof instead of --deletes")
    for name, given in (
        ("oof", options.oof),
        ("conflation", options.conflation is not None),
        ("projection", options.projection is not None),
        ("skip-n", is_page(options)),
    ):
        if given:
            raise _make_replay_error(f"--deletes and --{name} exclude each other", f"remove --{name}")


def _check_record_options(topic: TopicConfig, options: SubscribeOptions) -> None:
    """Reject options that require a topic with records."""
    wishes = {
        "oof": options.oof,
        "deletes": options.deletes,
        "delta": options.delta,
        "projection": options.projection is not None,
        "skip-n": is_page(options),
        "sow-key": options.sow_keys is not None,
        "key": options.keys is not None,
    }
    wish = next((name for name, given in wishes.items() if given), None)
    if topic.key_mode == "none" and wish is not None:
        raise UsageError(
            "SOW-FOL-004",
            f"topic {topic.name!r} has no SOW, so its messages cannot be compared with records",
            hint=f"remove --{wish}",
        )


def _check_replay_options(options: SubscribeOptions) -> None:
    """Reject invalid combinations of replay options (behaviour 3.4, 4.2, 4.3, 4.6; C111)."""
    if options.bookmark is None:
        if options.rate is not None or options.rate_max_gap is not None or options.bookmark_not_found is not None:
            raise _make_replay_error("a replay option is given without a start position", "add --bookmark")
        # Without records and without a replay, there is nothing to limit.
        if not options.sow and options.top_n is not None and options.skip_n is None:
            raise _make_replay_error(
                "top_n without records is a number of replayed messages, but there is no replay",
                "add --bookmark, or use --max",
            )
    elif options.projection is not None:
        hint = "remove --bookmark; query --at groups the records at a past time"
        raise _make_replay_error("an aggregated subscription cannot start at a bookmark", hint)
    elif options.delta:
        raise _make_replay_error("a subscription with a bookmark cannot send deltas", "remove --delta")
    elif not options.sow and (options.oof or is_page(options)):
        raise _make_replay_error(
            "out-of-focus messages require records, but a replay without records is requested", "remove --no-sow"
        )
    elif options.rate_max_gap is not None and options.rate is None:
        raise _make_replay_error("the maximum gap requires a rate", "add --rate")


def _make_replay_error(words: str, hint: str) -> UsageError:
    return UsageError("SOW-FOL-024", words, hint=hint)


def parse_field_paths(text: str | None) -> list[Path]:
    """Parse a list of fields such as ``/a,/b``, also in brackets: ``[/a,/b]``. Raises ExpressionError."""
    if text is None:
        return []
    from sowctl.expressions.syntax.errors import ExpressionError
    from sowctl.expressions.syntax.parser import parse_grouping

    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        # Otherwise the brackets belong to names: [/odd name], [/last, first].
        with suppress(ExpressionError):
            return [field.path for field in parse_grouping(text[1:-1])]
    return [field.path for field in parse_grouping(text)]


def _check_conflation(instance: Instance, topic: TopicConfig, kind: MessageType, options: SubscribeOptions) -> None:
    """Reject conflation keys that the topic does not support (behaviour 4.5)."""
    from sowctl.engine.subscriptions.control import parse_conflation_seconds

    if parse_conflation_seconds(options.conflation) is None:
        if options.conflation_key is not None:
            raise _make_conflation_error("a conflation key requires an interval", "add --conflation")
        return
    paths = parse_field_paths(options.conflation_key)
    if not paths and topic.key_mode == "none":
        raise _make_conflation_error(f"topic {topic.name!r} has no SOW keys for conflation", "give --conflation-key")
    if paths and not kind.filterable:
        raise _make_conflation_error(f"messages of type {kind.name} have no fields", "remove --conflation-key")
    if (options.oof or options.delta) and paths and [path.names for path in paths] != [key.names for key in topic.keys]:
        wish = "oof" if options.oof else "delta"
        raise _make_conflation_error(
            f"with {wish}, the conflation key must be the topic's Key", "remove --conflation-key"
        )
    directives = None if options.oof or options.delta else parse_select_list(options.select)
    if directives is None:
        return
    for names in (path.names for path in paths):
        # Delivered messages are conflated, so the fields are read after the select list was applied. Its result depends
        # on names only, so a JSON message with this field alone represents messages of all types.
        probe = reduce(lambda inner, name: {name: inner}, reversed(names), cast(object, 0))
        if (
            msgspec.json.decode(
                instance.find_message_type("json").select_fields(msgspec.json.encode(probe), directives)
            )
            != probe
        ):
            words = f"the select list omits the conflation key /{'/'.join(names)}"
            raise _make_conflation_error(words, "add it to --select")


def _make_conflation_error(words: str, hint: str) -> UsageError:
    return UsageError("SOW-FOL-010", words, hint=hint)


def _make_selector(kind: MessageType, directives: list[tuple[bool, tuple[str, ...]]]) -> PayloadSelector:
    return lambda payload: kind.select_fields(payload, directives)

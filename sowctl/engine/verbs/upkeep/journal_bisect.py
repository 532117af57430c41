"""journal bisect: finds the entry after which a condition on the state of a topic holds, by binary search.

The condition is false after one txid and true after a later one. The state in the middle shows in which half it becomes
true; so a journal of a million entries requires twenty states, each folded from the last one in which it is false.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.maintenance.journal_search.entries import JournalEntries, iterate_batches
from sowctl.engine.maintenance.journal_search.match_counts import MatchCounter, MatchState
from sowctl.engine.maintenance.journal_search.payloads import PayloadTest
from sowctl.engine.search.keytext import parse_keys, resolve_key_texts
from sowctl.engine.topics.positions import notify_skipped_tail, open_whole_log
from sowctl.engine.topics.targets import Target, find_topic
from sowctl.errors import MissingError, NegativeError, UsageError
from sowctl.structs import DescribedStruct
from sowctl.values.display import format_count
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.values.topicref import TopicRef

_CONDITION_PATTERN = re.compile(r"\s*(>=|<=|!=|=|>|<)\s*([0-9]{1,18})\s*")
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


class BisectOptions(Struct, frozen=True):
    """``count`` compares the number of matching records, such as ``> 0`` or ``= 12``.

    ``keys`` and ``sow_keys`` exclude all other records. The condition is evaluated after the txid or instant of
    ``from_txid`` or ``from_time`` and at that of ``to_txid`` or ``to_time``; None each for the journal's beginning and
    end.
    """

    filter: str | None = None
    count: str = "> 0"
    keys: tuple[str, ...] = ()
    sow_keys: tuple[str, ...] = ()
    from_txid: int | None = None
    from_time: int | None = None
    to_txid: int | None = None
    to_time: int | None = None


class Bisection(DescribedStruct, frozen=True):
    """``entry`` made the condition true: ``before`` is the state before it, ``after`` the state after it.

    ``steps`` states in between were tested, for which ``folded`` entries were folded in total.
    """

    topic: str
    entry: JournalEntries
    before: MatchState
    after: MatchState
    steps: int
    folded: int

    @property
    def values(self) -> dict[str, object]:
        """The result as plain values."""
        (record,) = self.entry.records
        return {
            "topic": self.topic,
            "txid": record.txid,
            "time": format_time(record.timestamp),
            "client": record.entry.client,
            "operation": record.extra["operation"],
            "before": {"txid": self.before.txid, "count": self.before.count},
            "after": {"txid": self.after.txid, "count": self.after.count},
            "steps": self.steps,
            "folded": self.folded,
        }

    @property
    def summary(self) -> str:
        """The result in one line."""
        (record,) = self.entry.records
        whose = f" by {record.entry.client}" if record.entry.client is not None else ""
        return (
            f"txid {record.txid}, written at {format_time(record.timestamp)}{whose}: "
            f"{format_count(self.before.count, 'record')} matched before it, {self.after.count:,} after it; found "
            f"in {format_count(self.steps, 'step')}, {format_count(self.folded, 'entry', 'entries')} read"
        )


def bisect_journal(instance: Instance, topic: str | None, options: BisectOptions) -> Bisection:
    """Find the entry of ``topic`` (None: the only one) after which the condition holds.

    If the condition changes more than once, this is one of the entries that made it true. Expiration is evaluated at
    the time of the topic's last entry. Raises UsageError for invalid texts, NegativeError ``SOW-UPK-040`` (exit 1) if
    the condition holds from the beginning or not at the end, MissingError ``SOW-UPK-041`` if the journals do not reach
    back to the topic's first entry, and what reading the journal raises.
    """
    holds = _parse_condition(options.count)
    test = PayloadTest(instance, options.filter, None)
    chosen = _find_topic(instance, topic)
    ref = chosen.ref
    test.require_fields(ref)
    keys = _select_keys(chosen, options)
    with open_whole_log(instance) as log:
        # Every step folds from the beginning: with a file missing, the condition would be evaluated on another state.
        log.require_files_after()
        if not log.covers_topic(ref):
            raise MissingError(
                "SOW-UPK-041",
                f"the first entries of topic {chosen.name!r} are not in the journals, so its past states are unknown",
                hint="restore the older journal files, there or in the archive",
                topic=chosen.name,
            )
        begin, end = _find_bounds(log, ref, options)
        counting = MatchCounter(log, chosen, test, keys)
        low = counting.advance_state(counting.build_empty_state(log.first_txid - 1), begin)
        if holds(low.count):
            raise _build_negative(f"already after txid {begin}", low, options)
        high = counting.advance_state(low, end)
        if not holds(high.count):
            raise _build_negative(f"not after txid {end}", high, options)
        steps = 0
        # Invariant: after low the condition is false, after high it is true.
        while high.txid - low.txid > 1:
            middle = counting.advance_state(low, (low.txid + high.txid) // 2)
            if holds(middle.count):
                high = middle
            else:
                low = middle
            steps += 1
        (block,) = log.iter_blocks(high.txid - 1, high.txid)
        (entry,) = iterate_batches(instance, block, [high.txid - block.first_txid], data=True)
        notify_skipped_tail(instance, log)
    return Bisection(chosen.name, entry, low, high, steps, counting.entries)


def _parse_condition(text: str) -> Callable[[int], bool]:
    found = _CONDITION_PATTERN.fullmatch(text)
    if found is None:
        raise UsageError(
            "SOW-UPK-042", f"--count {text!r} is not a condition", hint="write it like '> 0', '= 12' or '<= 5'"
        )
    compare, number = _COMPARISONS[found[1]], int(found[2])
    return lambda count: compare(count, number)


def _find_topic(instance: Instance, text: str | None) -> TopicConfig:
    if text is not None:
        chosen = find_topic(instance, text)
        if chosen.journalled:
            return chosen
        raise MissingError("SOW-UPK-041", f"topic {chosen.name!r} has no journal", topic=chosen.name)
    topics = [topic for topic in instance.topics if topic.journalled]
    if len(topics) != 1:
        raise UsageError(
            "SOW-UPK-043",
            f"the topic is ambiguous: the configuration has {len(topics)} in the journal",
            hint="--topic NAME; sowctl info lists them",
        )
    return topics[0]


def _select_keys(topic: TopicConfig, options: BisectOptions) -> frozenset[bytes] | None:
    if not options.keys and not options.sow_keys:
        return None
    meant = resolve_key_texts(options.keys, Target(topic=topic), None, fields=False)
    return frozenset(key for some in meant for key in some).union(parse_keys(options.sow_keys, topic))


def _find_bounds(log: Journal, ref: TopicRef, options: BisectOptions) -> tuple[int, int]:
    """Return the txids that bound the search."""
    first, last = log.first_txid - 1, log.read_last_txid()
    begin = first if options.from_txid is None else min(max(options.from_txid, first), last)
    end = last if options.to_txid is None else min(max(options.to_txid, first), last)
    if options.from_time is not None:
        begin = max(begin, _find_last_txid(log, ref, options.from_time, first))
    if options.to_time is not None:
        end = min(end, _find_last_txid(log, ref, options.to_time, first))
    if end <= begin:
        raise UsageError("SOW-UPK-044", "the range has no entry", hint="use a --since before --until", first=begin)
    return begin, end


def _find_last_txid(log: Journal, ref: TopicRef, time: int, first: int) -> int:
    """Return the txid of the last entry of a topic that is not later than ``time``; ``first`` without one."""
    last = first
    for unread in log.iter_block_refs():
        if not unread.read_map().has_topic(ref) or unread.header.earliest > time:
            continue
        block = unread.load()
        index, columns = block.topic_refs.index(ref), block.decode_columns()
        for place, number in enumerate(columns.topic_indexes):
            if number == index:
                # Times never decrease within a topic.
                if columns.times[place] > time:
                    return last
                last = block.first_txid + place
    return last


def _build_negative(when: str, state: MatchState, options: BisectOptions) -> NegativeError:
    matching = f"{format_count(state.count, 'record')} {'matches' if state.count == 1 else 'match'}"
    return NegativeError(
        "SOW-UPK-040",
        f"count {options.count.strip()} is true {when}, where {matching}"
        if when.startswith("already")
        else f"count {options.count.strip()} is false {when.removeprefix('not ')}, where {matching}",
        hint="choose --since where the condition is false, and --until where it is true",
        txid=state.txid,
        count=state.count,
    )

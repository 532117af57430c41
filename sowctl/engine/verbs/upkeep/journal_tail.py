"""journal tail: the last entries of a journal, and new ones as they are written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.engine.maintenance.journal_search.criteria import Criteria
from sowctl.engine.maintenance.journal_search.entries import JournalEntries, iterate_batches, resolve_topic_names
from sowctl.engine.subscriptions.journal_tail import JournalTail
from sowctl.engine.subscriptions.waker import Waker
from sowctl.engine.topics.positions import has_log, notify_skipped_tail, open_log, open_whole_log
from sowctl.engine.topics.targets import split_target
from sowctl.errors import ConfigError
from sowctl.journal.limits import JOURNAL_LIMITS

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.engine.instance import Instance
    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal


def read_journal_tail(
    instance: Instance, topic_names: Sequence[str], count: int, *, data: bool = True, directory: Path | None = None
) -> Iterator[JournalEntries]:
    """Yield the last ``count`` entries of all ``topic_names`` together, including logical ones; of all topics without
    names.

    Raises MissingError ``SOW-JRN-001`` without a journal file, ``SOW-ENG-012`` for a topic that does not exist, and
    what reading the journal raises.
    """
    with open_whole_log(instance, directory) as log:
        wanted = _build_criteria(instance, log, topic_names)
        yield from _read_last_entries(instance, log, wanted, log.read_last_txid(), count, data=data)
        notify_skipped_tail(instance, log)


def follow_journal(
    instance: Instance,
    topic_names: Sequence[str],
    count: int,
    *,
    data: bool = True,
    output: int | None = None,
    waiting: Callable[[], None] = lambda: None,
) -> Iterator[JournalEntries]:
    """Yield entries as :func:`read_journal_tail`, and then new entries as they are appended, without end.

    The journal may not exist yet. ``output`` is the descriptor that the entries are written to, if any: BrokenPipeError
    is raised when its reader closes it. ``waiting`` is called before every wait. Raises what reading raises,
    MissingError ``SOW-FOL-001`` if entries were removed before they were read, DamageError ``SOW-FOL-002`` if the
    journal is not the one that was followed.
    """
    config = instance.log
    if config is None:
        raise ConfigError("SOW-ENG-020", "this configuration has no TransactionLog")
    wanted: Criteria | None = None
    with closing(JournalTail(instance)) as tail, closing(Waker([config.directory], output=output)) as waker:
        end = 0
        if has_log(instance):
            with open_whole_log(instance) as log:
                wanted, end = _build_criteria(instance, log, topic_names), log.read_last_txid()
                yield from _read_last_entries(instance, log, wanted, end, count, data=data)
                notify_skipped_tail(instance, log)
        tail.start_after(end)
        while True:
            found = False
            for block in tail.read_blocks():
                found = True
                if wanted is None:
                    with open_log(instance) as log:
                        wanted = _build_criteria(instance, log, topic_names)
                places = wanted.find_places(block) if wanted.matches_map(block.header, block.map) else []
                yield from iterate_batches(instance, block, places, data=data)
            if found:
                # If no event announced it, poll from now on.
                waker.note_change_found()
            waiting()
            waker.wait(None)


def _build_criteria(instance: Instance, log: Journal, topic_names: Sequence[str]) -> Criteria:
    names, message_type = resolve_topic_names(instance, log, [split_target(text) for text in topic_names])
    return Criteria(names=names, message_type=message_type)


def _read_last_entries(
    instance: Instance, log: Journal, wanted: Criteria, end: int, count: int, *, data: bool
) -> Iterator[JournalEntries]:
    """Yield the last entries up to the txid ``end``: searched from the end, in ranges of increasing size."""
    held: deque[tuple[Block, list[int]]] = deque()
    need, high, size = count, end, max(JOURNAL_LIMITS.first_tail_txids, count)
    while need > 0 and high >= log.first_txid:
        low = max(high - size, log.first_txid - 1)
        part = _find_last_places(log, wanted, low, high, need)
        held.extendleft(reversed(part))
        need -= sum(len(places) for _, places in part)
        high, size = low, 8 * size
    for block, places in held:
        yield from iterate_batches(instance, block, places, data=data)


def _find_last_places(log: Journal, wanted: Criteria, low: int, high: int, need: int) -> list[tuple[Block, list[int]]]:
    """Return the last ``need`` entries with ``low < txid <= high``, or all if there are fewer."""
    part: deque[tuple[Block, list[int]]] = deque()
    surplus = -need
    for ref in log.iter_block_refs(after=low):
        if ref.header.first_txid > high:
            break
        if not wanted.matches_map(ref.header, ref.read_map()):
            continue
        block = ref.load()
        first = block.first_txid
        places = [place for place in wanted.find_places(block) if low < first + place <= high]
        if places:
            part.append((block, places))
            surplus += len(places)
        # Hold only the blocks that the requested entries are in.
        while part and surplus >= len(part[0][1]):
            surplus -= len(part.popleft()[1])
    if surplus > 0:
        block, places = part[0]
        part[0] = block, places[surplus:]
    return list(part)

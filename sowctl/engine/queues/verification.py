"""Checks of the state of a queue, by itself and against the journal, for ``check``. Nothing is written.

Every message that the journal has and that is not acknowledged must be in exactly one state; indexes and counters must
match the pages. Expired messages may still be in the state: the next change removes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from sowctl.engine.queues.backlog import Backlog
from sowctl.engine.queues.definition import compute_definition_digest
from sowctl.engine.queues.expressions import QueueExpressions
from sowctl.engine.queues.recovery import AHEAD_OF_JOURNAL, belongs_to_other_copy, explain_stale_state, read_proven_end
from sowctl.engine.queues.settlement import TIME_LIMIT_REASON
from sowctl.engine.topics.positions import has_log, open_log
from sowctl.engine.topics.queuestates import build_state_path, read_boot_id
from sowctl.errors import DamageError
from sowctl.findings import Finding, Level, Place
from sowctl.store.queue.file import QueueFile
from sowctl.store.queue.page import BARRIER, DELAYED, DONE, LEASED, READY
from sowctl.store.queue.values import QueueState
from sowctl.values.display import format_count
from sowctl.values.topicref import TopicRef
from sowctl.work_directories import create_work_directory

if TYPE_CHECKING:
    from sowctl.config.derived_entries import Queue
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.store.queue.rows import StateRows

FINDING_CODE = "SOW-QUE-020"
FaultKind: TypeAlias = Literal[
    "page-order", "incomplete-lease", "due-index", "lease-index", "bookmark-index", "deferral-index", "ready-index",
    "state-counters", "dead-counter", "oldest-barrier", "holder-counter", "unknown-holder",
    "missing-message", "extra-message", "dead-message", "ahead-of-journal",
]  # fmt: skip
"""The member ``kind`` of a finding, as ``sow-queue(5)`` lists them."""
_MAX_SHOWN_TXIDS = 5
_AHEAD_MESSAGE = "the queue has read up to txid {}, but the journal ends at txid {}"
_AHEAD_HINT = (
    "if a copy of the journal has later entries, restore it before publishing; otherwise "
    "no action is needed: a writer withdrew entries that it could not sync"
)


class _Looked(Exception):
    """Ends a change without writing anything."""


class _Fault(NamedTuple):
    """A fault of a state: its ``kind`` (``sow-queue(5)``), and a description."""

    kind: FaultKind
    message: str


class _Difference(NamedTuple):
    """Messages, by txid, in which a state and the journal differ; ``words`` describes the difference, with {} for
    them."""

    kind: FaultKind
    words: str
    txids: Collection[int]

    def build_faults(self, txids: Collection[int]) -> list[_Fault]:
        """Return the fault for some of the messages; an empty list for none."""
        shown = (
            "txid "
            + ", ".join(map(str, sorted(txids)[:_MAX_SHOWN_TXIDS]))
            + (" and more" if len(txids) > _MAX_SHOWN_TXIDS else "")
        )
        text = self.words.format(format_count(len(txids), "message is", "messages are"), shown)
        return [_Fault(self.kind, text)] if txids else []


class _JournalGaps(NamedTuple):
    """Messages lost in gaps of the journal by first and last txid; those before ``done_before`` may be settled."""

    messages: list[tuple[int, int]]
    done_before: int

    @classmethod
    def read_gaps(cls, queue: Queue, log: Journal) -> _JournalGaps:
        """Read the gaps of the journal."""
        messages, done = [], 0
        for gap in log.iter_gaps():
            if gap.concerns_topic(TopicRef(queue.underlying, queue.message_type)):
                messages.append((gap.first_txid, gap.last_txid))
            # Acknowledgements are entries under the queue's name, and come after the messages that they settle.
            if gap.concerns_topic(queue.ref):
                done = gap.last_txid
        return cls(messages, done)

    def explains_difference(self, txid: int) -> bool:
        """Return whether a gap may explain a difference between state and journal in a message."""
        return txid < self.done_before or any(first <= txid <= last for first, last in self.messages)


def verify_queue_state(instance: Instance, queue: Queue) -> tuple[list[Finding], str | None]:
    """Return the findings for a queue's state, and a summary of the check; None if nothing was checked.

    Raises SowError if the state cannot be read for a reason other than damage.
    """
    path = build_state_path(instance, queue)
    found: list[_Fault] = []
    of_gaps: list[_Fault] = []
    ahead: list[_Fault] = []
    counts = ""
    boot, synced = read_boot_id(), queue.file_backed_metadata
    file = QueueFile(path, instance.seam, boot=boot, synced=synced, lock_wait=instance.lock_wait)
    if not file.exists or not has_log(instance):
        return [], None
    try:
        # A copy can be brought up to the end of the journal without write permission, and blocks no worker.
        with (
            open_log(instance) as log,
            create_work_directory() as place,
            closing(file.copy_into(place)) as copy,
            copy.begin_change() as rows,
        ):
            last = read_proven_end(rows, log)
            why = explain_stale_state(rows, compute_definition_digest(queue), log, last)
            if why is None and belongs_to_other_copy(rows, log):
                why = "it belongs to another copy of the journal"
            if why == AHEAD_OF_JOURNAL:
                ahead = [_Fault("ahead-of-journal", _AHEAD_MESSAGE.format(rows.state.applied, last))]
            if why is not None:
                counts = f"{path.name}: no longer used ({why})"
                raise _Looked
            backlog = _build_backlog(instance, queue)
            while not backlog.catch_up(rows, log, last, instance.now):
                pass
            found += _check_pages(rows)
            cut = _JournalGaps.read_gaps(queue, log)
            for difference in _compare_with_journal(instance, queue, log, last, rows):
                # Only the state knows about entries cut out of the journal; in all else the two must agree.
                unknown = [txid for txid in difference.txids if cut.explains_difference(txid)]
                found += difference.build_faults(set(difference.txids).difference(unknown))
                of_gaps += difference.build_faults(unknown)
            state = rows.state
            counts = f"{path.name}: {state.pending_count:,} pending, {state.leased:,} leased, {state.dead:,} dead"
            raise _Looked
    except _Looked:
        pass
    except DamageError as error:
        return [Finding(error.code, Level.ERROR, Place(str(path)), error.message, error.hint)], f"{path.name}: damaged"
    hint = "stop the workers and remove the file: it is rebuilt from the journal"
    kept = "keep the file: without it, messages acknowledged in it are delivered again"
    if of_gaps:
        # A rebuild loses what only the state has.
        hint += "; messages whose acknowledgements a repair removed from the journal are then delivered again"
    text = "a repair removed entries from the journal that the state may include: "
    cut_out = [fault._replace(message=text + fault.message) for fault in of_gaps]
    findings = [
        Finding(FINDING_CODE, level, Place(str(path)), fault.message, advice, kind=fault.kind)
        for level, faults, advice in (
            (Level.ERROR, found, hint),
            (Level.WARNING, ahead, _AHEAD_HINT),
            (Level.WARNING, cut_out, kept),
        )
        for fault in faults
    ]
    return findings, counts


def _build_backlog(instance: Instance, queue: Queue) -> Backlog:
    regex = instance.log is not None and instance.log.regex_topics
    return Backlog(queue, lambda: QueueExpressions(instance, queue), instance.publisher_id, regex=regex)


def _check_pages(rows: StateRows) -> Iterator[_Fault]:
    """Compare the pages with the indexes and counters that are derived from them."""
    rows.verify_structure()
    state = rows.state
    counts: Counter[int] = Counter()
    held: set[tuple[int, int]] = set()
    rung: set[tuple[int, int]] = set()
    named: dict[tuple[int, int], int] = {}
    in_flight: Counter[int] = Counter()
    ready: set[tuple[int, int]] = set()
    barriers: set[int] = set()
    behind = 0
    alarms = set(rows.list_alarm_pages(1 << 63))
    for first in list(rows.iter_first_txids()):
        page = rows.load_page(first)
        txids = list(page.txids)
        if not txids or txids[0] < max(first, behind + 1) or sorted(set(txids)) != txids:
            yield _Fault("page-order", f"the page of txid {first} is not in order")
            continue
        behind = txids[-1]
        held |= {(holder, first) for holder in page.list_holders()}
        rung |= {(page.alarm, first)} if page.alarm else set()
        bookmarks = zip(page.publishers, page.sequences, page.states, txids, strict=True)
        named |= {
            (publisher, sequence): txid for publisher, sequence, one, txid in bookmarks if publisher and one != DONE
        }
        counts.update(page.states)
        ready |= {(priority, first) for priority in page.list_ready_priorities()}
        for index, one in enumerate(page.states):
            if one == LEASED:
                in_flight[page.holders[index]] += 1
                if not page.tokens[index] or first not in rows.list_lease_pages(page.holders[index]):
                    yield _Fault("incomplete-lease", f"the lease of txid {page.txids[index]} is incomplete")
            elif one == BARRIER:
                barriers.add(page.txids[index])
        due = page.find_next_alarm()
        if due and not (page.alarm and page.alarm <= due and first in alarms):
            yield _Fault("due-index", f"the due index misses an entry of the page of txid {first}")
    # These rows have no checksums, but each can be derived from the pages, which have.
    if rows.collect_lease_index() != held or rows.collect_alarm_index() != rung:
        yield _Fault("lease-index", "the lease index or the due index does not match the pages")
    named |= {(one.publisher, one.sequence): txid for txid, one in rows.list_dead_messages().items() if one.publisher}
    if rows.collect_name_index() != named:
        yield _Fault("bookmark-index", "the bookmarks of clients do not match the messages")
    deferred, due_then = rows.collect_deferral_index()
    if deferred != due_then:
        yield _Fault("deferral-index", "the two lists of acknowledgements without messages differ")
    if set(rows.iter_ready_pages()) != ready:
        yield _Fault("ready-index", "the index of ready messages does not match the pages")
    written = state.ready, state.leased, state.delayed, state.barriers
    if written != tuple(counts[one] for one in (READY, LEASED, DELAYED, BARRIER)):
        yield _Fault("state-counters", "the counters of the states do not match the pages")
    if state.dead != len(rows.list_dead_messages()):
        yield _Fault("dead-counter", "the counter of dead messages is wrong")
    noted = rows.find_first_barrier()
    if (noted[0] if noted else None) != min(barriers, default=None):
        yield _Fault("oldest-barrier", "the recorded oldest barrier is not the oldest")
    for number, holder in rows.list_holders().items():
        if holder.in_flight != in_flight.pop(number, 0):
            yield _Fault("holder-counter", f"the counter of messages leased to {holder.name!r} is wrong")
    if in_flight:
        yield _Fault("unknown-holder", "messages are leased to unknown holders")


def _compare_with_journal(
    instance: Instance, queue: Queue, log: Journal, last: int, rows: StateRows
) -> Iterator[_Difference]:
    """Compare the pending and dead messages with those of a state that is built from the journal alone."""
    state, now = rows.state, instance.now
    mine = _list_pending(rows, now)
    limit, oldest = state.applied, log.first_txid
    with create_work_directory() as place:
        file = QueueFile(place / "aside.queue", instance.seam, boot="aside", lock_wait=0)
        try:
            # Without a depth limit: the comparison ends at the position of the state.
            whole = replace(queue, target_queue_depth=None)
            backlog = _build_backlog(instance, whole)
            fresh = QueueState(
                queue.name, queue.message_type, compute_definition_digest(queue), queue.recovery_point, now
            )
            ready = False
            while not ready:
                with file.begin_change() as aside:
                    if aside.is_new:
                        aside.reset_state(fresh)
                        fresh.lineage, fresh.began, fresh.applied = log.lineage, state.began, state.began
                    ready = backlog.catch_up(aside, log, last, now)
            with file.begin_change() as aside:
                theirs = {txid: until for txid, until in _list_pending(aside, now).items() if txid <= limit}
                dead = {txid for txid in aside.list_dead_messages() if txid <= limit}
        finally:
            file.close()
    # Pruned messages cannot be compared; the queue notices when it delivers them.
    mine = {txid: until for txid, until in mine.items() if txid >= oldest}
    absent = theirs.keys() - mine.keys()
    # If the clock was set back, messages that the state expired seem live again: at most as many as it has counted.
    mortal = {txid for txid in absent if theirs[txid]}
    if len(mortal) <= state.expired.get(TIME_LIMIT_REASON, 0):
        absent -= mortal
    yield _Difference("missing-message", "{} in the journal but not in the queue: {}", absent)
    extra = mine.keys() - theirs.keys()
    yield _Difference("extra-message", "{} pending in the queue but not by the journal: {}", extra)
    own = {txid for txid in rows.list_dead_messages() if txid >= oldest}
    yield _Difference("dead-message", "{} dead in the queue or by the journal, but not in both: {}", own ^ dead)


def _list_pending(rows: StateRows, now: int) -> dict[int, int]:
    """Return the pending messages with their expirations, 0 for none."""
    found: dict[int, int] = {}
    for first in list(rows.iter_first_txids()):
        page = rows.load_page(first)
        for txid, one, expiration in zip(page.txids, page.states, page.expirations, strict=True):
            if one != DONE and not 0 < expiration <= now:
                found[txid] = expiration
    return found

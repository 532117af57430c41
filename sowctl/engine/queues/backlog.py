"""Adding new entries of the journal to the state of a queue: messages that match its Filter, and acknowledgements.

Every change calls this first, so that each sees the journal up to its end. Specified in ``behaviour`` 5.4: a deletion
or the expiration of a record removes nothing here, and each publish of a key is a separate message.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from sowctl.config.topic_patterns import topic_matches
from sowctl.engine.queues.settlement import (
    DEAD_REASONS,
    QueueEntry,
    apply_entry,
    choose_earlier,
    count_settled,
    find_pending,
    settle_message,
)
from sowctl.engine.search.matcher import evaluate_places, name_entry
from sowctl.journal.block import Position
from sowctl.journal.entries import LOGICAL_TOPICS_FLAG
from sowctl.journal.format import ACK, BEGIN, PUBLISH, QUEUE_OPERATIONS, REQUEUE
from sowctl.store.queue.page import BARRIER, PAGE_MESSAGES, READY
from sowctl.store.queue.values import Barrier

if TYPE_CHECKING:
    from sowctl.config.derived_entries import Queue
    from sowctl.engine.queues.expressions import QueueExpressions
    from sowctl.expressions.environment import Header
    from sowctl.journal.block import Block
    from sowctl.journal.entries import DecodedEntries
    from sowctl.journal.reader import Journal
    from sowctl.store.queue.rows import StateRows

T = TypeVar("T")
MAX_CHANGE_MESSAGES = 50_000
"""Maximum number of messages added per change: a long journal is read in several, so that no lock is held for long."""


class Backlog:
    """The journal's new entries for one queue. ``owner`` is the instance's publisher id; ``expressions`` compiles."""

    def __init__(self, queue: Queue, expressions: Callable[[], QueueExpressions], owner: int, *, regex: bool) -> None:
        self._queue = queue
        self._make = expressions
        self._made: QueueExpressions | None = None
        self._owner = owner
        self._regex = regex
        self._known: dict[str, bool] = {}

    @property
    def _expressions(self) -> QueueExpressions:
        """Compiled for the first message: most changes have none."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def catch_up(self, rows: StateRows, log: Journal, last: int, now: int) -> bool:
        """Add the entries after the state's position, up to the txid ``last``; return whether all were read, or as many
        as TargetQueueDepth allows.

        Raises the DamageErrors of reading, and LimitError for a runaway pattern.
        """
        state = rows.state
        if last <= state.applied:
            state.whole = True
            return True
        taken = 0
        start = Position(*state.position) if state.position is not None else None
        for block in log.iter_blocks(after=state.applied, until=last, start=start):
            if taken >= MAX_CHANGE_MESSAGES:
                return False
            room = None
            if self._queue.target_queue_depth is not None:
                room = self._queue.target_queue_depth - state.pending_count
                if room <= 0:
                    state.whole = False
                    return True
            taken += self._take_block(rows, block, now, room)
            rows.flush()
            if state.applied < block.last_txid:
                state.whole = False
                return True
        # The last txids may have been used up by an aborted group, or skipped by a restore. Then another block ends
        # there, or none: the last block read would not be found under this txid.
        if state.applied < last:
            state.applied, state.block = last, log.find_block_ending_at(last)
        state.whole = True
        return True

    def takes_topic(self, name: str) -> bool:
        """Return whether messages of a topic belong to the queue."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = topic_matches(self._queue.underlying, name, self._regex)
        return found

    def _take_block(self, rows: StateRows, block: Block, now: int, room: int | None) -> int:
        """Add the entries of one block, at most ``room`` messages; return the number of messages."""
        state = rows.state
        after, until = state.applied, block.last_txid
        places = self._filter_places(block, self._find_message_places(block, after))
        if room is not None and len(places) > room:
            # Later entries stay unread, including acknowledgements, which could otherwise precede their messages.
            until = block.first_txid + places[room] - 1
            places = places[:room]
        if places:
            self._add_pending(rows, block, places, now)
        self._apply_entries(rows, block, after, until)
        state.applied = until
        whole = until == block.last_txid
        place = block.end if whole else block.start
        # Within a block, the position is the start of the block: it is read again, and `applied` shows which entries
        # are done.
        state.position = place.number, place.offset, place.txid
        # Journal.has_block compares the last txid of a block with `applied`, so a partly read block cannot be verified.
        state.block = (block.start.number, block.start.offset, block.header.crc) if whole else None
        return len(places)

    def _find_message_places(self, block: Block, after: int) -> Sequence[int]:
        """Return the indexes of the queue's messages after the txid ``after``."""
        kind = self._queue.message_type
        wanted = {
            index for index, (name, type_) in enumerate(block.topic_refs) if type_ == kind and self.takes_topic(name)
        }
        others: set[int] = set()
        # Columns are decompressed only for a block that has messages of the queue, or of logical topics.
        if block.header.flags & LOGICAL_TOPICS_FLAG:
            others = {index for index, (_, type_) in enumerate(block.topic_refs) if type_ == kind} - wanted
        if not wanted and not others:
            return ()
        columns = block.decode_columns()
        logical = columns.logical_topics if others else None
        if not wanted and logical is None:
            return ()
        start = max(0, after + 1 - block.first_txid)
        operations = bytes(columns.operations)
        plain = operations.count(PUBLISH) == len(operations)
        # The common case: every entry of the block belongs to the queue, so none is examined.
        if plain and len(wanted) == len(block.topic_refs):
            return range(start, len(operations))
        found = []
        for place in range(start, len(operations)):
            if operations[place] != PUBLISH:
                continue
            topic = columns.topic_indexes[place]
            if topic in wanted or (logical is not None and topic in others and self._is_logical(logical[place])):
                found.append(place)
        return found

    def _is_logical(self, name: bytes | None) -> bool:
        return name is not None and self.takes_topic(name.decode("utf-8", "replace"))

    def _filter_places(self, block: Block, places: Sequence[int]) -> Sequence[int]:
        """Return the indexes of the messages that match the Filter."""
        if not places or not self._queue.filter:
            return places
        return [places[index] for index in self._evaluate(self._expressions.find_matching, block, places)]

    def _evaluate(
        self, evaluate: Callable[[Sequence[bytes], Sequence[Header] | None], T], block: Block, places: Sequence[int]
    ) -> T:
        """Evaluate an expression of the queue on messages; its error names the record that caused it."""
        payloads, headers = self._read_messages(block, places)
        return evaluate_places(
            lambda part: evaluate(payloads[part], headers and headers[part]),
            len(places),
            lambda error, at: name_entry(error, block, places[at]),
        )

    def _read_messages(self, block: Block, places: Sequence[int]) -> tuple[list[bytes], list[Header] | None]:
        payloads = block.list_payloads()
        chosen = payloads if len(places) == len(payloads) else [payloads[place] for place in places]
        if not self._expressions.uses_header:
            return chosen, None
        return chosen, _build_headers(block, places, chosen)

    def _add_pending(self, rows: StateRows, block: Block, places: Sequence[int], now: int) -> None:
        """Make the messages at these indexes pending."""
        columns, first = block.decode_columns(), block.first_txid
        made: dict[str, Sequence[int]] = {}
        if self._expressions.has_priority or self._queue.barrier:
            if self._expressions.has_priority:
                made["priorities"] = self._evaluate(self._expressions.compute_priorities, block, places)
            barriers = self._evaluate(self._expressions.find_barriers, block, places)
            if barriers:
                made["states"] = bytes(BARRIER if index in barriers else READY for index in range(len(places)))
                for index in barriers:
                    rows.put_barrier(first + places[index], Barrier())
        if self._queue.expiration_us is not None or any(columns.expirations):
            made["expirations"] = self._compute_expirations(columns, places)
        if any(columns.sequences):
            known = [number for number, _ in block.publishers]
            who, counts = columns.publisher_indexes, columns.sequences
            # A message without a client's number has the bookmark of the instance, even if a client is named.
            made["publishers"] = [known[who[place]] if counts[place] else 0 for place in places]
            made["sequences"] = [counts[place] for place in places]
            pairs = zip(made["publishers"], made["sequences"], places, strict=True)
            named = [((one, sequence), first + place) for one, sequence, place in pairs if sequence]
            rows.put_names([name for name, _ in named], [txid for _, txid in named])
        txids = array("Q", [first + place for place in places])
        self._append_messages(rows, block, txids, made)
        state = rows.state
        state.entered += len(places)
        state.open_minute(now).entered += len(places)
        if rows.has_deferrals():
            self._settle_deferred(rows, block, txids, made, now)

    def _append_messages(
        self, rows: StateRows, block: Block, txids: array[int], made: dict[str, Sequence[int]]
    ) -> None:
        place = block.start.number, block.start.offset, block.start.txid
        last = rows.find_last_page()
        at = 0
        while at < len(txids):
            page = last[1] if last is not None and len(last[1]) < PAGE_MESSAGES else rows.create_page(txids[at])
            stop = min(len(txids), at + PAGE_MESSAGES - len(page))
            part = {name: column[at:stop] for name, column in made.items()}
            page.append_messages(txids[at:stop], place, **part)
            # An alarm may be early (the page is checked in vain) but never late.
            for expiration in part.get("expirations", ()):
                page.alarm = choose_earlier(page.alarm, expiration)
            at, last = stop, None

    def _compute_expirations(self, columns: DecodedEntries, places: Sequence[int]) -> list[int]:
        """Return when each message expires in the queue, 0 for never (``behaviour`` 5.4, ExpirationModel)."""
        model, lifetime = self._queue.expiration_model, self._queue.expiration_us
        found = []
        for place in places:
            stamp = columns.expirations[place]
            own = columns.times[place] + lifetime if lifetime is not None else 0
            if model == "queue" or not stamp:
                found.append(own)
            elif model == "default":
                found.append(stamp)
            elif model == "earliest":
                found.append(choose_earlier(stamp, own))
            else:
                # A queue without Expiration keeps messages forever, which is later than any instant.
                found.append(max(stamp, own) if own else 0)
        return found

    def _settle_deferred(
        self, rows: StateRows, block: Block, txids: array[int], made: dict[str, Sequence[int]], now: int
    ) -> None:
        """Settle the messages that were acknowledged before they were published."""
        times, first = block.decode_columns().times, block.first_txid
        nothing = (0,) * len(txids)
        named = zip(txids, made.get("publishers", nothing), made.get("sequences", nothing), strict=True)
        for txid, publisher, sequence in named:
            name = (publisher, sequence) if sequence else (self._owner, txid)
            until = rows.find_deferral(name)
            if until is None:
                continue
            rows.drop_deferral(name)
            spot = find_pending(rows, txid)
            # If the acknowledgement expired before, the message is delivered like any other (DeferredAckExpiration).
            if spot is not None and until > times[txid - first]:
                settle_message(rows, spot)
                count_settled(rows, QueueEntry(ACK, name), now)

    def _apply_entries(self, rows: StateRows, block: Block, after: int, until: int) -> None:
        """Apply the entries of the queue itself, in order."""
        ref = self._queue.ref
        if ref not in block.topic_refs:
            return
        columns, first = block.decode_columns(), block.first_txid
        own = block.topic_refs.index(ref)
        keys, checks = bytes(columns.keys), bytes(columns.checks)
        for place in range(max(0, after + 1 - first), until + 1 - first):
            operation = columns.operations[place]
            if columns.topic_indexes[place] != own or operation not in QUEUE_OPERATIONS or operation == BEGIN:
                continue
            at = 8 * place
            name = int.from_bytes(keys[at : at + 8], "big"), int.from_bytes(checks[at : at + 8], "big")
            reason = columns.correlation_ids[place] if columns.correlation_ids is not None else None
            entry = QueueEntry(operation, name, (reason or b"").decode("ascii", "replace"))
            # The state has applied its own entries already. Their effect may be undone since: a dead message that was
            # requeued may be leased by now. Acknowledgements are final, and are applied again if they are missing.
            if first + place <= rows.written_txid and (operation == REQUEUE or entry.reason in DEAD_REASONS):
                continue
            apply_entry(rows, self._owner, entry, columns.times[place], self._queue.deferred_ack_expiration_us)


def _build_headers(block: Block, places: Sequence[int], payloads: Sequence[bytes]) -> list[Header]:
    """Build the headers that message functions read, for messages in the journal."""
    from sowctl.expressions.environment import Header

    columns = block.decode_columns()
    found = []
    for place, payload in zip(places, payloads, strict=True):
        logical = columns.logical_topics[place] if columns.logical_topics is not None else None
        topic = block.topic_refs[columns.topic_indexes[place]][0]
        key = str(int.from_bytes(columns.keys[8 * place : 8 * place + 8], "big"))
        found.append(
            Header(
                topic=topic if logical is None else logical.decode("utf-8", "replace"),
                sow_key=key,
                sow_key_hash=key,
                correlation_id=columns.correlation_ids[place] if columns.correlation_ids is not None else None,
                last_updated=columns.times[place],
                payload_size=len(payload),
            )
        )
    return found

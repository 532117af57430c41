"""The entries of one topic in a batch: built from prepared messages, under the locks, and written by ``commit``.

:func:`build_topic_entries` processes messages in steps: refuse those that are too old, drop duplicates, assign keys of
chains, look up the stored records once, finish constructed fields and deltas with them
(:mod:`~sowctl.engine.writing.delta_merge`), and classify the rest as inserted, updated, unchanged or refused. This
module has only the order of the steps; the decisions are in :mod:`~sowctl.engine.writing.outcome`. Called by
:mod:`~sowctl.engine.writing.group_commit`. Specified in ``behaviour`` 1.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from sowctl.engine.topics.expiration import count_expired
from sowctl.engine.writing.outcome import (
    NO_RECORD_REASON,
    WRITTEN_STATUSES,
    Content,
    Lifetime,
    Reason,
    assign_times,
    compute_entry_flags,
    compute_expiration,
    compute_expirations,
    decide_outcomes,
    describe_collision,
    describe_too_old,
    find_identical,
    find_unchanged,
)
from sowctl.identity.keys import digest_check, digest_key, split_digests
from sowctl.journal.entries import TEXT_NAMES, EntryBatch
from sowctl.journal.format import UNKEYED_FLAG
from sowctl.structs import DescribedStruct
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sowctl.engine.fold.entry_columns import LatestEntries
    from sowctl.engine.keys.keymaker import ChainKeeper
    from sowctl.engine.writing.prepare import PreparedMessages, Preparer
    from sowctl.engine.writing.topicwriter import TopicWriter
    from sowctl.journal.entries import Numbers

T = TypeVar("T")


class TopicEntries(DescribedStruct):
    """The entries of a batch that are written to one topic, and the outcomes of the messages.

    ``places`` are indexes into the batch, ``statuses`` outcomes of messages, or ``journalled`` in a topic without
    records; both have one element per entry. ``duplicates`` counts messages that were published before, ``skipped``
    messages that are not written because they would change nothing, ``missing`` deletions of keys without a record,
    ``already_expired`` entries that had expired when they were written. ``chains`` learn the links of the entries once
    these are written. With ``latest``, the memtable keeps the entries as columns.
    """

    writer: TopicWriter
    batch: EntryBatch
    places: Sequence[int]
    statuses: Sequence[str]
    duplicates: int = 0
    skipped: int = 0
    missing: int = 0
    already_expired: int = 0
    chains: ChainKeeper | None = None
    latest: LatestEntries | None = None

    def __len__(self) -> int:
        return len(self.batch)

    def count_outcomes(self) -> dict[str, int]:
        """Count messages by outcome, under the names used in reports."""
        found = {status: self.statuses.count(status) for status in (*WRITTEN_STATUSES, "deleted", "journalled")}
        found["unchanged"] += self.skipped
        others = {"missing": self.missing, "duplicates": self.duplicates, "already_expired": self.already_expired}
        return found | others

    def count_expired(self, now: int) -> None:
        """Count the entries that have expired at ``now``, in microseconds: they are written but hidden from readers."""
        stamps = self.batch.list_numbers("expirations")
        self.already_expired = count_expired(self.writer.config.expiration, stamps, now)

    def keep_indexes(self, indexes: list[int]) -> None:
        """Remove all entries except those at ``indexes``."""
        self.batch, self.latest = self.batch.take(indexes), None
        self.places = [self.places[index] for index in indexes]
        self.statuses = [self.statuses[index] for index in indexes]


def build_topic_entries(
    writer: TopicWriter, preparer: Preparer, ready: PreparedMessages, now: int, duplicates: Set[int]
) -> tuple[TopicEntries, list[Refusal]]:
    """Build the entries of ``ready`` at ``now``, in microseconds, and the refusals; the topic's locks are held.

    ``duplicates`` are places of messages that were published before.
    """
    # Topics that are only in the TransactionLog have entries but no records (behaviour 11.32).
    if preparer.topic.key_mode == "none":
        return _EntryBuilder(writer, preparer, ready, now, duplicates).build_journal_entries(duplicates)
    chains = preparer.keys.chains
    if chains is None:
        return _EntryBuilder(writer, preparer, ready, now, duplicates).build_keyed_entries(duplicates)
    # A message that is refused late may have started a chain whose key other messages of the batch have. Keys are
    # assigned again without it, until no message has a key from a refused one.
    gone: list[Refusal] = []
    while True:
        # Enrichment and merging replace payloads: each attempt starts with a copy of the list.
        attempt = _EntryBuilder(writer, preparer, replace(ready, payloads=list(ready.payloads)), now, duplicates)
        entries, refused = attempt.build_keyed_entries(duplicates, {refusal.index for refusal in gone})
        linked = chains.find_new_links(refusal.index for refusal in refused)
        # The loop ends because each iteration removes at least one more message.
        if not linked:
            return entries, gone + refused
        gone += [refusal for refusal in refused if refusal.index in linked]


class _EntryBuilder:
    """Builds the entries of one topic's part of a batch. ``keep`` are the indexes of the messages still to be written.

    Steps remove messages from ``keep`` and never add any.
    """

    def __init__(
        self, writer: TopicWriter, preparer: Preparer, ready: PreparedMessages, now: int, duplicates: Set[int]
    ) -> None:
        self.writer, self.preparer, self.ready, self.now = writer, preparer, ready, now
        self.refused: list[Refusal] = []
        # Times are assigned first: enrichment, lifetimes and the retention of versions depend on them.
        self.times, older = assign_times(ready.times, len(ready.places), now, writer.last_time)
        self.keep: Sequence[int] = range(len(ready.places))
        self.skipped = 0
        if preparer.raises_times:
            older = []
        if older and duplicates:
            # Duplicates are dropped, not refused for being older than the messages that followed them.
            older = [index for index in older if ready.places[index] not in duplicates]
        if older and preparer.options.skip_unchanged:
            older = self._skip_older(older)
        if older:
            # A message that is too old does not raise the topic's time, so ``times`` has the last time before it.
            self._refuse_messages(older, lambda index: describe_too_old(self.times[index]))

    def _skip_older(self, older: list[int]) -> list[int]:
        """Skip those of the messages ``older``, which are too old, that equal their records; return the others."""
        ready = self.ready
        # With deltas, deletions or enrichment the result is not the message itself, and not known yet.
        if ready.deltas is not None or ready.deletes is not None or self.preparer.enrichment is not None:
            return older
        keys = list(map(digest_key, ready.digests))
        first = {key: index for index, key in reversed(list(enumerate(keys)))}
        # Only the first message of a key meets the stored record.
        asked = [index for index in older if first[keys[index]] == index]
        stored = self.writer.read_live_values([keys[index] for index in asked], self.now)
        befores = [stored.get(keys[index]) for index in asked]
        identical = find_identical(befores, self._collect_contents(asked))
        skipped = {index for index, same in zip(asked, identical, strict=True) if same}
        self.skipped += len(skipped)
        self.keep = [index for index in self.keep if index not in skipped]
        return [index for index in older if index not in skipped]

    def _collect_contents(self, indexes: Sequence[int]) -> list[Content]:
        """Return the contents, apart from time and txid, of the records that these messages would write."""
        ready = self.ready
        lifetimes = None if ready.lifetimes is None else [ready.lifetimes[index] for index in indexes]
        times = [self.times[index] for index in indexes]
        expirations = compute_expirations(times, lifetimes, self.preparer.default_lifetime)
        columns = [getattr(ready, name) for name in TEXT_NAMES]
        parts = [tuple(None if column is None else column[index] for column in columns) for index in indexes]
        return [
            Content(ready.payloads[index], expiration, some)
            for index, expiration, some in zip(indexes, expirations, parts, strict=True)
        ]

    def build_keyed_entries(
        self, duplicates: Set[int], without: Set[int] = frozenset()
    ) -> tuple[TopicEntries, list[Refusal]]:
        """Build entries for a topic with records, without the messages at the places ``without``, which are refused."""
        writer, preparer, ready = self.writer, self.preparer, self.ready
        if without:
            self.keep = [index for index in self.keep if ready.places[index] not in without]
        repeated = self._drop_duplicates(duplicates)
        chains = preparer.keys.chains
        if chains is not None:
            self._assign_chain_keys(chains)
        elif (
            self._is_plain()
            and not preparer.options.skip_unchanged
            and (columned := writer.get_column_writer(len(ready.payloads))) is not None
        ):
            from sowctl.engine.writing.batch_outcomes import decide_batch

            stamps = self._list_stamps()
            batch: EntryBatch = EntryBatch(
                [writer.ref], ready.payloads, *split_digests(ready.digests), *stamps, stored=ready.stored
            )
            decided = decide_batch(columned, batch)
            if decided is not None:
                batch.flags = compute_entry_flags(decided.statuses)
                written = TopicEntries(writer, batch, ready.places, decided.statuses, latest=decided.latest)
                return written, self.refused
        # The first eight bytes are the SOW key, the last eight the check word, which distinguishes records with equal
        # keys.
        keys = list(map(digest_key, ready.digests))
        checks = list(map(digest_check, ready.digests))
        # One lookup for the batch, under the locks: no other process can change these records before they are written.
        stored = writer.read_live_values(keys, self.now)
        # Most batches have neither, so their records need not be decoded.
        if ready.deltas is not None or preparer.enrichment is not None:
            from sowctl.engine.writing.delta_merge import enrich_and_merge

            self._remove_refused(enrich_and_merge(writer, preparer, ready, self.keep, self.times, stored, self.now))
        # Outcomes are decided on final payloads: only these show whether a message changes its record.
        statuses, missing = self._decide_outcomes(keys, checks, stored)
        pick = self._pick_remaining
        batch = EntryBatch(
            [writer.ref],
            pick(ready.payloads),
            pick(keys),
            pick(checks),
            *self._list_stamps(),
            compute_entry_flags(statuses),
            **self._pick_texts(),
        )
        if ready.deletes is not None and "deleted" in statuses:
            batch = batch.mark_deletions(pick(ready.deletes))
        places, skipped = self._list_remaining_places(), self.skipped
        return TopicEntries(writer, batch, places, statuses, repeated, skipped, missing, chains=chains), self.refused

    def _is_plain(self) -> bool:
        """Return whether all messages are written unchanged, and their stored values have no part but the payload."""
        ready = self.ready
        extra = [ready.deltas, ready.deletes, self.preparer.enrichment, *(getattr(ready, name) for name in TEXT_NAMES)]
        return len(self.keep) == len(ready.payloads) and all(one is None for one in extra)

    def build_journal_entries(self, duplicates: Set[int]) -> tuple[TopicEntries, list[Refusal]]:
        """Build entries for a topic without records: no message meets a record, and no delta is merged."""
        ready = self.ready
        # With update_only, a delta requires a record.
        if ready.deltas is not None and self.preparer.options.update_only:
            deltas = ready.deltas
            self._refuse_messages([index for index in self.keep if deltas[index]], lambda _: NO_RECORD_REASON)
        repeated = self._drop_duplicates(duplicates)
        pick, count = self._pick_remaining, len(self.keep)
        # The flag UNKEYED marks entries without a key; their key columns are present and filled with zeros.
        zeros = bytes(8 * count)
        batch = EntryBatch(
            [self.writer.ref],
            pick(ready.payloads),
            zeros,
            zeros,
            *self._list_stamps(),
            UNKEYED_FLAG,
            # User keys and logical topics belong to records, which this topic does not have.
            correlation_ids=self._pick_texts()["correlation_ids"],
        )
        places = self._list_remaining_places()
        return TopicEntries(self.writer, batch, places, ["journalled"] * count, repeated), self.refused

    def _drop_duplicates(self, duplicates: Set[int]) -> int:
        """Remove the messages at these places without a refusal; return their number."""
        if not duplicates:
            return 0
        before = len(self.keep)
        self.keep = [index for index in self.keep if self.ready.places[index] not in duplicates]
        return before - len(self.keep)

    def _assign_chain_keys(self, chains: ChainKeeper) -> None:
        """Assign the keys of chains to messages, and refuse messages that get none."""
        assert self.ready.texts is not None
        chains.catch_up(self.writer)
        self.ready.digests, gone = chains.assign_digests(self.ready.texts, self.ready.places, self.keep)
        self._remove_refused(gone)

    def _decide_outcomes(
        self, keys: list[bytes], checks: list[bytes], stored: dict[bytes, bytes]
    ) -> tuple[list[str], int]:
        """Return the outcomes of the remaining messages, and the number of deletions of keys without a record.

        These deletions are removed, and messages with colliding keys are refused. ``checks`` receives the check words
        of deleted records.
        """
        pick = self._pick_remaining
        mine, payloads = pick(keys), pick(self.ready.payloads)
        befores = list(map(stored.get, mine))
        # Without stored records nothing is compared: a first load inserts every key.
        same = find_unchanged(befores, payloads) if stored else None
        contents: Sequence[object] = payloads
        if self.preparer.options.skip_unchanged:
            # A skipped message must not change anything, so more than the payload is compared.
            contents = compared = self._collect_contents(self.keep)
            same = find_identical(befores, compared) if stored else None
        deletes = pick(self.ready.deletes) if self.ready.deletes is not None else None
        if deletes is not None and self.ready.times is not None:
            self._find_expired_records(mine, deletes, befores)
        decided = decide_outcomes(mine, pick(checks), contents, befores, same, deletes)
        statuses: Sequence[str] = decided.statuses
        places = list(self.keep)
        for index, check in decided.removed.items():
            checks[places[index]] = check
        missing = statuses.count("missing")
        if missing:
            # Deleting a missing key is no error (behaviour C30), and nothing is written.
            self.keep = [index for index, status in zip(self.keep, statuses, strict=True) if status != "missing"]
            statuses = [status for status in statuses if status != "missing"]
        if self.preparer.options.skip_unchanged and "unchanged" in statuses:
            # The record stays unchanged, so the next message of this key meets the same content in either case.
            self.skipped += statuses.count("unchanged")
            self.keep = [index for index, status in zip(self.keep, statuses, strict=True) if status != "unchanged"]
            statuses = [status for status in statuses if status != "unchanged"]
        if "collided" in statuses:
            gone = [index for index, status in zip(self.keep, statuses, strict=True) if status == "collided"]
            self._refuse_messages(gone, lambda index: describe_collision(int.from_bytes(keys[index], "big")))
            # ``keep`` no longer has these messages; remove them from the statuses, too.
            statuses = [status for status in statuses if status != "collided"]
        return list(statuses), missing

    def _find_expired_records(
        self, keys: Sequence[bytes], deletes: Sequence[bool], befores: list[bytes | None]
    ) -> None:
        """Put into ``befores`` the records that deletions with their own times remove, although these expired since.

        Without the deletion, such a record would be in past states until its lifetime ended.
        """
        for index, (key, time) in enumerate(zip(keys, self._pick_remaining(self.times), strict=True)):
            if deletes[index] and befores[index] is None and time < self.now:
                befores[index] = self.writer.read_live_values([key], time).get(key)

    def _list_stamps(self) -> tuple[Numbers, Numbers]:
        """Return the times and the expirations of the remaining messages; one number each if no message has its own."""
        ready, times, usual = self.ready, self._pick_remaining(self.times), self.preparer.default_lifetime
        if ready.times is None and ready.lifetimes is None and times:
            # All have the time of the clock, and so the same expiration: one number for all entries.
            return times[0], compute_expiration(times[0], None, usual)
        lifetimes: list[Lifetime] | None = None if ready.lifetimes is None else self._pick_remaining(ready.lifetimes)
        return times, compute_expirations(times, lifetimes, usual)

    def _pick_remaining(self, column: list[T]) -> list[T]:
        """Return the elements of the remaining messages; the column itself if no message was removed."""
        # ``keep`` never gains indexes, so an equal length means that no message was removed.
        return column if len(self.keep) == len(column) else [column[index] for index in self.keep]

    def _pick_texts(self) -> dict[str, Any]:
        """Return the optional texts of the remaining messages, by the names of their columns."""
        columns = {name: getattr(self.ready, name) for name in TEXT_NAMES}
        return {name: None if column is None else self._pick_remaining(column) for name, column in columns.items()}

    def _list_remaining_places(self) -> Sequence[int]:
        """Return the places of the remaining messages."""
        places = self.ready.places
        return places if len(self.keep) == len(places) else [places[index] for index in self.keep]

    def _refuse_messages(self, indexes: Sequence[int], reason: Callable[[int], Reason]) -> None:
        """Refuse the messages at ``indexes``, each for its ``reason``."""
        self._remove_refused([Refusal(self.ready.places[index], *reason(index)) for index in indexes])

    def _remove_refused(self, gone: list[Refusal]) -> None:
        """Record the refusals ``gone``, and remove their messages."""
        if gone:
            self.refused.extend(gone)
            # Refusals have places in the batch; ``keep`` has indexes into this topic's part of it.
            places = {refusal.index for refusal in gone}
            self.keep = [index for index in self.keep if self.ready.places[index] not in places]

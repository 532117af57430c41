"""The entries of one topic in a batch: made of prepared messages, under the locks, and written by ``commit``.

:func:`build_topic_entries` asks, step by step, what becomes of each message: too old and duplicates go, chains name
keys, the stored records are looked up once, constructed fields and deltas are finished with them
(:mod:`~sowctl.engine.writing.delta_merge`), and the rest is inserted, updated, unchanged or refused. Each decision is
one of :mod:`~sowctl.engine.writing.outcome`; here is only their order. Called by
:mod:`~sowctl.engine.writing.group_commit`. Ruled by ``behaviour`` 1.
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
    """The entries of a batch of messages that are written to one topic, and what became of the messages.

    ``places`` are indexes into the batch of messages, ``statuses`` outcomes of messages, or ``journalled`` in a topic
    that keeps no records, both one for each entry. ``duplicates`` counts messages that were published before,
    ``skipped`` messages that are not written because they would change nothing, ``missing`` deletions of keys without a
    record, ``already_expired`` entries that were over when they were written. ``chains`` learn of the entries once
    these are written. With ``latest`` the entries go into the memtable as columns.
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
        """Count messages by outcome, under the names that reports have for them."""
        found = {status: self.statuses.count(status) for status in (*WRITTEN_STATUSES, "deleted", "journalled")}
        found["unchanged"] += self.skipped
        others = {"missing": self.missing, "duplicates": self.duplicates, "already_expired": self.already_expired}
        return found | others

    def count_expired(self, now: int) -> None:
        """Count the entries that are over at ``now``, in microseconds: they are written, and nothing reads them."""
        stamps = self.batch.list_numbers("expirations")
        self.already_expired = count_expired(self.writer.config.expiration, stamps, now)

    def keep_indexes(self, indexes: list[int]) -> None:
        """Forget all entries but these."""
        self.batch, self.latest = self.batch.take(indexes), None
        self.places = [self.places[index] for index in indexes]
        self.statuses = [self.statuses[index] for index in indexes]


def build_topic_entries(
    writer: TopicWriter, preparer: Preparer, ready: PreparedMessages, now: int, duplicates: Set[int]
) -> tuple[TopicEntries, list[Refusal]]:
    """The entries of ``ready`` at ``now``, in microseconds, and the refusals; the topic's locks are held.

    ``duplicates`` are places of messages that were published before.
    """
    # Topics that only the transaction log names have entries but no records (behaviour 11.32).
    if preparer.topic.key_mode == "none":
        return _EntryBuilder(writer, preparer, ready, now, duplicates).build_journal_entries(duplicates)
    chains = preparer.keys.chains
    if chains is None:
        return _EntryBuilder(writer, preparer, ready, now, duplicates).build_keyed_entries(duplicates)
    # A message that is refused late may have begun a chain by then, whose key others of the batch have got. All are
    # named once more without it, until no refused message has left a key behind.
    gone: list[Refusal] = []
    while True:
        # Enrichment and merging write into the payloads: each attempt begins with a copy of them.
        attempt = _EntryBuilder(writer, preparer, replace(ready, payloads=list(ready.payloads)), now, duplicates)
        entries, refused = attempt.build_keyed_entries(duplicates, {refusal.index for refusal in gone})
        linked = chains.find_new_links(refusal.index for refusal in refused)
        # The loop ends: each turn leaves out at least one message more, and a batch is finite.
        if not linked:
            return entries, gone + refused
        gone += [refusal for refusal in refused if refusal.index in linked]


class _EntryBuilder:
    """One topic's part of a batch on its way. ``keep`` are the indexes of the messages that are still to be written.

    Every step takes messages out of ``keep`` or leaves it; none ever comes back.
    """

    def __init__(
        self, writer: TopicWriter, preparer: Preparer, ready: PreparedMessages, now: int, duplicates: Set[int]
    ) -> None:
        self.writer, self.preparer, self.ready, self.now = writer, preparer, ready, now
        self.refused: list[Refusal] = []
        # Times come first of all: enrichment, lifetimes and the retention of versions take them from here.
        self.times, older = assign_times(ready.times, len(ready.places), now, writer.last_time)
        self.keep: Sequence[int] = range(len(ready.places))
        self.skipped = 0
        if preparer.raises_times:
            older = []
        if older and duplicates:
            # What was published before is left out, and not refused for being older than what it was followed by.
            older = [index for index in older if ready.places[index] not in duplicates]
        if older and preparer.options.skip_unchanged:
            older = self._skip_older(older)
        if older:
            # The time before a message that is too old is the topic's last one at its turn: it has not raised it.
            self._refuse_messages(older, lambda index: describe_too_old(self.times[index]))

    def _skip_older(self, older: list[int]) -> list[int]:
        """Leave out those of the messages that are too old which are their records already; returns the others."""
        ready = self.ready
        # What these make is not the message as it came, so it is not known yet.
        if ready.deltas is not None or ready.deletes is not None or self.preparer.enrichment is not None:
            return older
        keys = list(map(digest_key, ready.digests))
        first = {key: index for index, key in reversed(list(enumerate(keys)))}
        # A message behind another one of its key meets that one, and not the record.
        asked = [index for index in older if first[keys[index]] == index]
        stored = self.writer.read_live_values([keys[index] for index in asked], self.now)
        befores = [stored.get(keys[index]) for index in asked]
        identical = find_identical(befores, self._collect_contents(asked))
        skipped = {index for index, same in zip(asked, identical, strict=True) if same}
        self.skipped += len(skipped)
        self.keep = [index for index in self.keep if index not in skipped]
        return [index for index in older if index not in skipped]

    def _collect_contents(self, indexes: Sequence[int]) -> list[Content]:
        """What these messages would make of their records, but for time and txid."""
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
        """Entries for a topic with records. Messages at the places ``without`` are left out: they are refused."""
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
        # The first eight bytes find the record, the last eight prove that it is this one and no other with an equal
        # key.
        keys = list(map(digest_key, ready.digests))
        checks = list(map(digest_check, ready.digests))
        # One look-up for the batch, under the locks: no other process can change these records before they are written.
        stored = writer.read_live_values(keys, self.now)
        # Most batches have neither: they pass by without their records being taken apart.
        if ready.deltas is not None or preparer.enrichment is not None:
            from sowctl.engine.writing.delta_merge import enrich_and_merge

            self._remove_refused(enrich_and_merge(writer, preparer, ready, self.keep, self.times, stored, self.now))
        # Outcomes are decided on finished payloads: only then is it known whether a message changes its record.
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
        """Return whether all messages are written as they are and bring nothing but the payload for the value."""
        ready = self.ready
        extra = [ready.deltas, ready.deletes, self.preparer.enrichment, *(getattr(ready, name) for name in TEXT_NAMES)]
        return len(self.keep) == len(ready.payloads) and all(one is None for one in extra)

    def build_journal_entries(self, duplicates: Set[int]) -> tuple[TopicEntries, list[Refusal]]:
        """Entries for a topic without records: no message can meet one, and no delta can be merged into one."""
        ready = self.ready
        # There is no record that such a delta could update.
        if ready.deltas is not None and self.preparer.options.update_only:
            deltas = ready.deltas
            self._refuse_messages([index for index in self.keep if deltas[index]], lambda _: NO_RECORD_REASON)
        repeated = self._drop_duplicates(duplicates)
        pick, count = self._pick_remaining, len(self.keep)
        # The flag UNKEYED says of such an entry that its key is none; the columns are still there, filled with zeros.
        zeros = bytes(8 * count)
        batch = EntryBatch(
            [self.writer.ref],
            pick(ready.payloads),
            zeros,
            zeros,
            *self._list_stamps(),
            UNKEYED_FLAG,
            # No record has a key or a logical topic here.
            correlation_ids=self._pick_texts()["correlation_ids"],
        )
        places = self._list_remaining_places()
        return TopicEntries(self.writer, batch, places, ["journalled"] * count, repeated), self.refused

    def _drop_duplicates(self, duplicates: Set[int]) -> int:
        """Leave out the messages at these places, silently; returns how many there were."""
        if not duplicates:
            return 0
        before = len(self.keep)
        self.keep = [index for index in self.keep if self.ready.places[index] not in duplicates]
        return before - len(self.keep)

    def _assign_chain_keys(self, chains: ChainKeeper) -> None:
        """Give the messages the keys of their chains, and refuse those that get none."""
        assert self.ready.texts is not None
        chains.catch_up(self.writer)
        self.ready.digests, gone = chains.assign_digests(self.ready.texts, self.ready.places, self.keep)
        self._remove_refused(gone)

    def _decide_outcomes(
        self, keys: list[bytes], checks: list[bytes], stored: dict[bytes, bytes]
    ) -> tuple[list[str], int]:
        """The outcomes of the messages that are left, without those whose keys collide; and how many deletions of keys
        without a record there were, which are left out. ``checks`` get the check words of records that are deleted."""
        pick = self._pick_remaining
        mine, payloads = pick(keys), pick(self.ready.payloads)
        befores = list(map(stored.get, mine))
        # Without a stored record nothing is compared: a first load inserts every key.
        same = find_unchanged(befores, payloads) if stored else None
        contents: Sequence[object] = payloads
        if self.preparer.options.skip_unchanged:
            # What is not written must change nothing at all, so more than the payload is compared.
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
            # A key that is not there is no error (behaviour C30), and nothing is written.
            self.keep = [index for index, status in zip(self.keep, statuses, strict=True) if status != "missing"]
            statuses = [status for status in statuses if status != "missing"]
        if self.preparer.options.skip_unchanged and "unchanged" in statuses:
            # The record stays as it is, so the next message of this key has met the same as if this one were written.
            self.skipped += statuses.count("unchanged")
            self.keep = [index for index, status in zip(self.keep, statuses, strict=True) if status != "unchanged"]
            statuses = [status for status in statuses if status != "unchanged"]
        if "collided" in statuses:
            gone = [index for index, status in zip(self.keep, statuses, strict=True) if status == "collided"]
            self._refuse_messages(gone, lambda index: describe_collision(int.from_bytes(keys[index], "big")))
            # ``keep`` has lost these messages, so statuses lose them too, and both are of one length again.
            statuses = [status for status in statuses if status != "collided"]
        return list(statuses), missing

    def _find_expired_records(
        self, keys: Sequence[bytes], deletes: Sequence[bool], befores: list[bytes | None]
    ) -> None:
        """Put into ``befores`` the records that deletions with times of their own met, though they are over by now.

        Without the deletion such a record would be there, in states of the past, until its lifetime ended.
        """
        for index, (key, time) in enumerate(zip(keys, self._pick_remaining(self.times), strict=True)):
            if deletes[index] and befores[index] is None and time < self.now:
                befores[index] = self.writer.read_live_values([key], time).get(key)

    def _list_stamps(self) -> tuple[Numbers, Numbers]:
        """The times and the expirations of the messages that are left."""
        ready, times, usual = self.ready, self._pick_remaining(self.times), self.preparer.default_lifetime
        if ready.times is None and ready.lifetimes is None and times:
            # All of them have the clock's time, and so the same end: one number each stands for all entries.
            return times[0], compute_expiration(times[0], None, usual)
        lifetimes: list[Lifetime] | None = None if ready.lifetimes is None else self._pick_remaining(ready.lifetimes)
        return times, compute_expirations(times, lifetimes, usual)

    def _pick_remaining(self, column: list[T]) -> list[T]:
        """The elements of the messages that are left; the column itself where these are all."""
        # ``keep`` only ever loses indexes, so an equal length means that all messages are left.
        return column if len(self.keep) == len(column) else [column[index] for index in self.keep]

    def _pick_texts(self) -> dict[str, Any]:
        """The optional texts of the messages that are left, by the names of their columns."""
        columns = {name: getattr(self.ready, name) for name in TEXT_NAMES}
        return {name: None if column is None else self._pick_remaining(column) for name, column in columns.items()}

    def _list_remaining_places(self) -> Sequence[int]:
        """The places of the messages that are left."""
        places = self.ready.places
        return places if len(self.keep) == len(places) else [places[index] for index in self.keep]

    def _refuse_messages(self, indexes: Sequence[int], reason: Callable[[int], Reason]) -> None:
        """Refuse some of the messages that are left, each for its ``reason``."""
        self._remove_refused([Refusal(self.ready.places[index], *reason(index)) for index in indexes])

    def _remove_refused(self, gone: list[Refusal]) -> None:
        """Leave out messages that were refused."""
        if gone:
            self.refused.extend(gone)
            # Refusals name places in the batch; ``keep`` has indexes into this topic's part of it.
            places = {refusal.index for refusal in gone}
            self.keep = [index for index in self.keep if self.ready.places[index] not in places]

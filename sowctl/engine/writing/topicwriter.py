"""One topic opened for writing: its store, its overlay, and what its configuration says about a record's life.

A store is opened for one by :mod:`sowctl.engine.writing.opening`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sowctl.engine.fold import limits
from sowctl.engine.fold.apply import apply
from sowctl.engine.fold.inorder import merged
from sowctl.engine.fold.overlay import Overlay
from sowctl.engine.fold.removal import MAX_PIGGYBACK_EXPIRED_RECORDS
from sowctl.engine.fold.runs import drop_joined, flush, join, refolding, remove_runs
from sowctl.engine.sources.current import CurrentSource
from sowctl.engine.topics.expiration import expires, is_expired, unexpired
from sowctl.engine.topics.positions import naming_replay
from sowctl.engine.topics.retention import retention
from sowctl.engine.writing.behind import carries, caught_up
from sowctl.errors import RefusedError
from sowctl.store.builder import is_being_built
from sowctl.store.codec import expiration_of
from sowctl.store.env import Store

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.fold.compaction import Merging
    from sowctl.engine.fold.keyfilter import KeyFilter
    from sowctl.engine.instance import Instance
    from sowctl.journal.format import Topic
    from sowctl.journal.writer import JournalWriter
    from sowctl.store.meta import AppliedBlock
    from sowctl.store.sortedrun import SortedRun


class TopicWriter(Protocol):
    """One topic of a writing session, as publishing sees it.

    There are three kinds: :class:`StoreWriter`, for a topic without records ``logonly.LogWriter``, and in a dry run
    ``dryrun.DryRunWriter``. ``last_txid`` and ``last_time`` are those of the topic's last entry; ``overlay`` has what
    is written and not in the store yet.
    """

    config: TopicConfig
    ref: Topic
    journalled: bool
    expires: bool
    overlay: Overlay
    last_txid: int
    last_time: int

    @property
    def volatile(self) -> bool:
        """Whether nothing keeps what is written."""

    def stored(self, keys: Iterable[bytes], now: int) -> dict[bytes, bytes]:
        """The live stored values of ``keys``; those of records that are over at ``now`` are absent."""

    def scan(self, size: int, now: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """All live records in key order, up to ``size`` at a time."""

    @property
    def columned(self) -> bool:
        """Whether large batches are decided by columns, once there are many."""

    def by_columns(self, count: int) -> StoreWriter | None:
        """The writer, if a batch of so many messages is decided by columns, and waits as columns in its overlay."""

    def renew(self, instance: Instance, journal: JournalWriter) -> None:
        """Be up to date again: the journal's lock was just taken, and others may have written."""

    def close(self) -> None:
        """Let go of what is open."""


def is_volatile(config: TopicConfig) -> bool:
    """Whether nothing keeps what is written to a topic: it is transient, and no journal records it."""
    return config.durability == "transient" and not config.journalled


class StoreWriter:
    """A topic's store with its overlay. ``last_time`` is the highest time that the topic has seen.

    ``flushes``: the overlay goes into sorted runs when it is full, and not into the store. ``due``: it is to be merged
    with the store, which the session does while it holds no lock.
    """

    def __init__(self, instance: Instance, config: TopicConfig, store: Store, overlay: Overlay) -> None:
        self._instance = instance
        self.config = config
        self.store = store
        self.definition = store.definition
        self.overlay = overlay
        self.ref = config.name, config.message_type
        self.journalled = config.journalled
        self.rule = retention(config.history)
        self.expires = expires(config.expiration)
        self.last_txid = 0
        self.last_time = 0
        self.remove_expired_at: int | None = None
        self.flushes = False
        self.due = False
        self._applied = 0
        # The keys that store and runs may have, where this writer has merged them; None where that is not known.
        self._known: KeyFilter | None = None
        self.held = ExitStack()
        self.reload()
        self._set_limits()

    @property
    def volatile(self) -> bool:
        """Whether nothing keeps what is written: the topic is transient, and no journal records it."""
        return is_volatile(self.config)

    def close(self) -> None:
        """Close the store; what is only in the overlay is in the journal too."""
        self.held.close()

    def reload(self) -> None:
        """Read position and time from the store; others may have written, or replaced it.

        Raises RefusedError ``SOW-ENG-086`` where they gave it another definition: keys that were made under the one
        that this writer knows would be other records now.
        """
        meta = self.store.meta()
        if meta.definition != self.definition:
            raise RefusedError(
                "SOW-ENG-086",
                f"the store of topic {self.config.name!r} was rebuilt with another definition during "
                f"this run: {meta.definition}",
                place=self.store.path,
                hint="nothing of this batch was written; run the command again with the current configuration",
                topic=self.config.name,
            )
        # The store may be ahead of the overlay (another process applied) or behind it (nothing is applied yet).
        self.last_txid = max(meta.applied, self.overlay.last_txid)
        self.last_time = max(meta.last_time, self.overlay.last_time)

    def renew(self, instance: Instance, journal: JournalWriter) -> None:
        """After the journal's lock was taken: start over if others have moved the store, forward or back."""
        # The overlay holds the entries above ``base`` alone; a store that stands before that misses those between. And
        # runs lead on from ``base``: beside a store that others have brought further, they would lead nowhere.
        if self.store.meta().applied != self.overlay.base:
            self.overlay = caught_up(instance, self.config, self.store, journal)
            self._known = None
            self._set_limits()
        self.reload()

    def stored(self, keys: Iterable[bytes], now: int) -> dict[bytes, bytes]:
        """The live stored values of ``keys``, overlay first; expired records count as absent (``behaviour`` 11.40)."""
        # In key order, neighbours lie on one page of the store, and of a run.
        found = self._read_current_values(sorted(set(keys)), self.overlay.current)
        if self.expires:
            rule = self.config.expiration
            # A record whose lifetime is over counts as absent: the next message of its key inserts (behaviour 11.40).
            return {k: v for k, v in found.items() if not is_expired(rule, expiration_of(v), now)}
        return found

    @property
    def columned(self) -> bool:
        """See :class:`TopicWriter`. Versions are kept as values, and of a record that expires its stamp is asked."""
        return self.rule is None and not self.expires

    def by_columns(self, count: int) -> StoreWriter | None:
        """See :class:`TopicWriter`."""
        if not count or not self.columned:
            return None
        # A small batch goes behind what waits as columns: that is not packed for it.
        if self.overlay.unpacked is not None or limits.is_columned(count, len(self.overlay) + self._applied):
            return self
        return None

    def behind(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """The stored values of ``keys``, which ascend and do not wait as columns in the overlay."""
        return self._read_current_values(keys, self.overlay.packed)

    def _read_current_values(self, asked: list[bytes], current: Mapping[bytes, bytes | None]) -> dict[bytes, bytes]:
        """The stored values of keys in order, from what the overlay holds in memory, its runs and the store."""
        # The overlay comes first: it is newer than the store for every key that it has. A key that it has deleted is
        # among its changes, as None, and must not be looked up in the store.
        changed = {key: current[key] for key in asked if key in current} if current else {}
        wanted = [key for key in asked if key not in changed] if changed else asked
        if self._known is not None:
            # Most keys of a load may be new: what is in no run and not in the store need not be searched for there.
            wanted = self._known.may_have(wanted)
        if self.overlay.runs:
            changed |= self.overlay.find_in_runs(wanted)
            wanted = [key for key in wanted if key not in changed]
        found = {key: value for key, value in changed.items() if value is not None}
        if wanted:
            with naming_replay(self.config), self.store.snapshot() as snapshot:
                # An empty store, as in a first load, is not asked key by key.
                if snapshot.count:
                    # As in a writing transaction, the neighbours of new keys are not searched for a second time: it
                    # costs half of the look-up.
                    found.update(snapshot.get_many(wanted))
        return found

    def is_full(self) -> bool:
        """Whether the overlay holds so much in memory that it is to be let go."""
        waiting = self.overlay.unpacked
        if waiting is not None and not self.overlay.packed and (self.flushes or self._is_empty) and self._is_mergeable:
            keys, size = limits.in_columns(first=self._is_empty and not self.overlay.runs)
            return len(waiting) >= keys or waiting.is_full(size)
        keys, size = self.limits
        return self.overlay.in_memory >= keys or self.overlay.held >= size

    @property
    def is_behind(self) -> bool:
        """Whether the overlay has anything that the store has not."""
        return bool(self.overlay.size or self.overlay.runs)

    @contextmanager
    def source(self, now: int) -> Iterator[CurrentSource]:
        """All live records, overlay included, as readers see them. The store must not be written meanwhile."""
        with ExitStack() as held, naming_replay(self.config):
            snapshot = held.enter_context(self.store.snapshot())
            path = self.config.file if self.config.durability == "persistent" else None
            watch = self._instance.watch if self._instance.is_watched else None
            with closing(
                CurrentSource(held.pop_all(), snapshot, self.overlay, self.config, now, path, watch)
            ) as source:
                yield source

    def scan(self, size: int, now: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """All live records, overlay included, in key order. The store must not be written meanwhile."""
        with naming_replay(self.config), self.store.snapshot() as snapshot:
            pairs = snapshot.scan(batch=size)
            if len(self.overlay):
                pairs = merged(pairs, self.overlay.in_order(size))
            for keys, values in pairs:
                places = unexpired(values, now) if self.expires else range(len(values))
                yield [keys[place] for place in places], [values[place] for place in places]

    def relieve(self, lineage: bytes, upto: int, block: AppliedBlock | None = None, *, later: bool = False) -> None:
        """Let go of what the overlay holds in memory: into the store, into a run, or, with the runs, into a new store.

        ``later``: what goes into a new store is only put into a run, and is due then; a first load stays in memory.
        Other arguments and errors as of :meth:`apply`. The journal's lock is held, and what the overlay holds is
        synced.
        """
        with naming_replay(self.config):
            held = self._count_stored_records()
            # Into an empty store, keys are appended in order; what is too much for one transaction, into a new file.
            if block is None or not self._is_mergeable or (not held and not self._needs_new_store()):
                self.apply(lineage, upto, block=block)
                return
            self.flushes = self.flushes or limits.is_bulk(
                self._applied + len(self.overlay), held, history=self.rule is not None
            )
            if not self.flushes and not self._is_merge_running():
                self.apply(lineage, upto, block=block)
            else:
                self.due = limits.is_to_be_merged(len(self.overlay), held)
                if self.due and not later:
                    self._merge_now(lineage, upto, block)
                elif not (self.due and self._is_first_load):
                    self._flush_memtable(lineage, upto, block)
                if not later:
                    self.due = False
                    while runs := self.joinable():
                        self.take_joined(runs, self.join(runs))
            self._set_limits()

    def joinable(self) -> list[SortedRun]:
        """The runs that are to become one, as there are so many of about one size; may be none."""
        count = limits.to_be_joined([len(run) for run in self.overlay.runs]) if self.flushes else 0
        return self.overlay.runs[-count:] if count else []

    def join(self, runs: Sequence[SortedRun]) -> SortedRun:
        """Write them as one; no lock is needed."""
        with naming_replay(self.config):
            return join(self._instance, self.config, self.store, runs)

    def take_joined(self, runs: Sequence[SortedRun], joined: SortedRun) -> None:
        """Put it in their place, under the journal's lock."""
        drop_joined(self.overlay, runs, joined)

    def settle(self, lineage: bytes, upto: int, block: AppliedBlock | None = None) -> None:
        """The end of a session: as :meth:`apply`, but runs of others that are small beside the store stay there.

        What is behind them stays in the journal, until there is enough of both to be merged; so it does while another
        process merges. What goes into a new store is only put into a run, and is due then; a first load stays in
        memory.
        """
        if (self.overlay.runs or self._is_empty) and not self.flushes and not self.is_full():
            with naming_replay(self.config):
                if limits.is_small(len(self.overlay), self._count_stored_records()) or self._is_merge_running():
                    return
        if block is not None and self._needs_new_store():
            with naming_replay(self.config):
                if self.overlay.in_memory and not self._is_first_load:
                    self._flush_memtable(lineage, upto, block)
                self.due = True
            return
        self.apply(lineage, upto, block=block)

    def _count_stored_records(self) -> int:
        """Records and versions of the store: what a merge writes besides the changes."""
        meta = self.store.meta()
        return meta.records + meta.versions

    def _is_merge_running(self) -> bool:
        """Whether another process is merging what runs have with the store, or a first load, or is making it anew."""
        return (bool(self.overlay.runs) or self._is_empty) and is_being_built(self.store.path)

    def _needs_new_store(self) -> bool:
        """Whether the overlay is applied by a merge, and not in place."""
        first = self._is_empty and self.rule is None
        if not (self.overlay.runs or self.flushes or first) or not self._is_mergeable:
            return False
        return self._exceeds_transaction or bool(self.flushes and self.overlay.runs)

    @property
    def _is_first_load(self) -> bool:
        """Whether the new store is made of what is in memory alone: no run of it is needed for that."""
        return self._is_empty and self.rule is None and not self.overlay.runs and not is_being_built(self.store.path)

    def _flush_memtable(self, lineage: bytes, upto: int, block: AppliedBlock) -> None:
        if self._known is not None:
            self._known.add(self.overlay.memory_keys())
        flush(self._instance, self.config, self.store, self.overlay, lineage, upto, block)

    def apply(
        self,
        lineage: bytes,
        upto: int,
        sequences: dict[int, int] | None = None,
        block: AppliedBlock | None = None,
    ) -> None:
        """Put the overlay into the store; also remove, bit by bit, what had expired when the session began.

        ``block`` is the journal's block that ends with ``upto``.
        """
        with naming_replay(self.config):
            if self._needs_new_store():
                self._merge_now(lineage, upto, block)
                return
            # So little that it fits into memory, and into one transaction.
            if self.overlay.runs:
                self.overlay.recall()
            count = len(self.overlay)
            done = apply(
                self.store,
                self.overlay,
                lineage=lineage,
                upto=upto,
                rule=self.rule,
                block=block,
                remove_expired_at=self.remove_expired_at,
                sequences=sequences,
                on_change=self._instance.watching("changes of the store") if self._instance.is_watched else None,
            )
        self._applied += count
        # When nothing was left of it, that is enough for a session: what expires later is hidden from readers, and the
        # next writer removes it.
        if done.expired < MAX_PIGGYBACK_EXPIRED_RECORDS:
            self.remove_expired_at = None
        self._refresh_after_apply(lineage)

    @property
    def _exceeds_transaction(self) -> bool:
        """Whether runs and memory hold more than one transaction of the store may change."""
        keys, size = limits.in_place(self.store.file_size())
        return len(self.overlay) >= keys or self.overlay.held >= size

    @property
    def _is_mergeable(self) -> bool:
        return self.journalled and carries(self.store.meta(), history=self.rule is not None)

    def _merge_now(self, lineage: bytes, upto: int, block: AppliedBlock | None) -> None:
        """Merge at once, under the locks that are held."""
        from sowctl.engine.fold.compaction import merge

        self._applied += len(self.overlay)
        done = merge(
            self._instance,
            self.store,
            self.overlay,
            lineage=lineage,
            upto=upto,
            block=block,
            rule=self.rule,
            remove_expired_at=self.remove_expired_at,
        )
        if done is not None:
            self.remove_expired_at = None
        self._refresh_after_apply(lineage)

    def begin_merge(self, lineage: bytes, upto: int, block: AppliedBlock | None, *, ending: bool) -> Merging | None:
        """Begin the merge that is due, under the journal's lock; None where another process does it.

        It is one of store and runs: what is in memory stays there, and comes behind the runs. In a first load it is one
        of what is in memory, which leads to ``upto``. ``ending``: nothing is looked up any more.
        """
        from sowctl.engine.fold.compaction import Merging
        from sowctl.engine.fold.keyfilter import KeyFilter

        self.due = False
        if self._is_merge_running():
            return None
        with naming_replay(self.config):
            overlay = self.overlay
            if overlay.runs:
                path, last = Path(self.store.path), overlay.runs[-1]
                again = refolding(self._instance, self.config, path, self.store.meta())
                overlay = Overlay(history=self.rule is not None, base=overlay.base, runs=overlay.runs, again=again)
                lineage, upto, block = last.state.lineage, last.upto, last.state.block
            elif not (self._is_first_load and self._needs_new_store()):
                return None
            # The former one goes first: two of them are much memory.
            self._known = None
            return Merging(
                self._instance,
                self.store,
                overlay,
                lineage=lineage,
                upto=upto,
                block=block,
                rule=self.rule,
                remove_expired_at=self.remove_expired_at,
                known=None if ending else KeyFilter(),
            )

    def end_merge(self, merging: Merging) -> None:
        """Put what was filled in the place of the store, under the journal's lock."""
        with naming_replay(self.config):
            if merging.put_in_place() is None:
                # Another process has changed the store: runs, memory and journal are still there, for the next one who
                # needs room.
                return
            self.remove_expired_at = None
            count = len(self.overlay)
            if self.overlay.runs:
                self.overlay.drop_runs(merging.upto)
            elif self.overlay.last_txid <= merging.upto:
                self.overlay.clear(merging.upto)
            # Else others have published while a first load was merged, and memory has theirs, too. It is still right,
            # and does not begin at the store's position: :meth:`renew` reads theirs from the journal before any batch.
            self._applied += count - len(self.overlay)
            self._refresh_after_apply(merging.lineage)
            self._known = merging.known

    def _refresh_after_apply(self, lineage: bytes) -> None:
        self._known = None
        if self.journalled:
            remove_runs(Path(self.store.path), self.store.meta(), lineage)
        self._set_limits()

    def _set_limits(self) -> None:
        self._is_empty = not self._count_stored_records()
        self.limits = limits.in_memory() if self.flushes else limits.in_place(self.store.file_size())

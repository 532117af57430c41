"""Moves records to the keys of their topic's current definition: deletes old keys and publishes the records again.

After a change of Key, KeyDomain or the kind of keys, store and journal have the records under the former keys. The
entries written here give the journal the same records as if the topic had always had its current keys: of several
records with the same new key, the one that was written last remains. All entries are one group, so all or none take
effect, and stores rebuilt from the journal agree. Called by :mod:`sowctl.engine.verbs.replay`, which then rebuilds the
store. Specified in ``sowctl-replay(1)``, --rekey, and ``sow-journal(5)``, Txids and groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.engine.fold.blocks import build_deletions, collect_texts
from sowctl.engine.fold.rebuild import rebuild_stores
from sowctl.engine.fold.tempstore import open_temporary_topic
from sowctl.engine.keys.presentkeys import PresentKeys
from sowctl.engine.sources.current import CurrentSource, open_current_source, open_file_source
from sowctl.errors import RefusedError
from sowctl.identity.keys import DIGEST_DTYPE, DigestSequence, digest_check, digest_key
from sowctl.journal.entries import EntryBatch
from sowctl.journal.format import INSERTED_FLAG
from sowctl.store.codec import (
    STAMP_DTYPE,
    decode_record,
    extract_raw_stamps,
    read_check,
    read_checks,
    read_logical_topic,
)
from sowctl.store.limits import STORE_LIMITS

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.journal.writer import JournalWriter

UNEXPIRED_CLOCK = 0
"""A clock at which nothing has expired: expired records are rekeyed, too."""


class RekeyResult(Struct):
    """Counts of a rekey: ``deleted`` keys, ``published`` records, ``merged`` records superseded by later ones."""

    deleted: int = 0
    published: int = 0
    merged: int = 0

    @property
    def entry_count(self) -> int:
        """The number of entries of the group, 0 if every record already has its current key."""
        return self.deleted + self.published


def rekey_topic(
    instance: Instance,
    log: Journal,
    topic: TopicConfig,
    journal: JournalWriter | None,
    *,
    use_store: bool,
    whole: bool = False,
) -> RekeyResult:
    """Write the group for ``topic`` under the journal's lock; ``journal`` None: only count its entries.

    ``use_store``: the store is readable and belongs to this journal, so the records are read from it; otherwise from
    the journals. ``whole``: also publish the records that keep their keys, because the journals do not reach back to
    them. Raises RefusedError ``SOW-RPL-011`` for a record without a key in the current definition, ``SOW-RPL-012`` for
    keys that depend on the order of messages, ``SOW-RPL-013`` for keys that collide.
    """
    present = PresentKeys(instance, topic)
    if topic.key_mode == "module" and present.maker.chains is not None:
        raise RefusedError(
            "SOW-RPL-012",
            f"the keys of topic {topic.name!r} come from chains, which depend on the order of messages",
            hint=f"sowctl query {topic.name} --meta > FILE, then sowctl publish OTHER FILE --framing "
            "envelope, where OTHER is a topic with another name",
            topic=topic.name,
        )
    with ExitStack() as stack:
        if journal is not None:
            stack.enter_context(journal.hold_lock())
            # Nothing is appended while the lock is held: the following reads are complete.
            journal.read_new_blocks()
        folded = _fold_journal_store(instance, log, topic, stack) if topic.file is not None else None
        if folded is None or use_store:
            # Expired records are rekeyed, too: the clock and the configuration, which may change, decide whether they
            # are hidden.
            live = open_current_source(instance, topic, now=UNEXPIRED_CLOCK)
            stack.callback(live.close)
        else:
            live = folded
        plan = _RekeyPlan(present)
        plan.plan_records(live, whole)
        # The journal may have keys that the store does not: a later rebuild would restore them under their former keys.
        if folded is not None and folded is not live:
            plan.plan_orphan_deletions(folded)
        done = RekeyResult(len(plan.gone), len(plan.kept), plan.merged)
        # Nothing to write: a second run after a crash returns here if the group of the first one is complete.
        if journal is None or not done.entry_count:
            return done
        behind = live.memtable.last_time if live.memtable is not None else 0
        latest = log.find_topic_state(topic.ref).last_time
        # Times within a topic never decrease (behaviour 11.41), regardless of the clock.
        at = max(instance.now, live.meta.last_time, behind, latest)
        sources = (live, folded) if folded is not None and folded is not live else (live,)
        waiting = None
        for batch in plan.iterate_batches(sources, at):
            if waiting is not None:
                # One group in several blocks: readers ignore it until its last block is written, so a crash before that
                # leaves the records under their former keys.
                journal.append_group(waiting, instance.now, last=False)
            waiting = batch
        assert waiting is not None
        journal.append_group(waiting, instance.now, last=True)
        journal.sync()
        return done


def _fold_journal_store(instance: Instance, log: Journal, topic: TopicConfig, stack: ExitStack) -> CurrentSource:
    """Build a temporary store from the journals, and open its records."""
    former = stack.enter_context(open_temporary_topic(topic, "former"))
    assert former.file is not None
    rebuild_stores(instance, log, [former])
    source = open_file_source(instance, former.file)
    stack.callback(source.close)
    return source


class _RekeyPlan:
    """The keys to delete and the records to publish again. Uses 40 bytes per record; payloads are not kept.

    ``gone`` are the keys to delete; ``kept`` the rows of the records to publish, in the order in which they were
    written.
    """

    def __init__(self, present: PresentKeys) -> None:
        import numpy

        self._np = numpy
        self._present = present
        self._topic = present.topic
        self.gone: list[bytes] = []
        self.kept: Any = ()
        self.merged = 0
        self._keys = b""
        self._digests = b""
        self._fresh: Any = ()

    def plan_records(self, live: CurrentSource, whole: bool) -> None:
        """Read all records of the topic, and decide which keys to delete and which records to publish."""
        keys: list[bytes] = []
        checks: list[bytes] = []
        digests: list[bytes] = []
        stamps: list[bytes] = []
        for some, values in live.read_batches(STORE_LIMITS.read_batch_records):
            keys += some
            checks += read_checks(values)
            digests += self._make_present_keys(some, values)
            stamps.append(extract_raw_stamps(values))
        np = self._np
        self._keys, self._digests = b"".join(keys), b"".join(digests)
        rows = np.frombuffer(self._digests, DIGEST_DTYPE)
        old, new, words = np.frombuffer(self._keys, ">u8"), rows["key"], rows["check"]
        written = np.frombuffer(b"".join(stamps), STAMP_DTYPE)["txid"]
        # Ordered by new key, then by txid: the last row of equal keys is the record that was written last.
        order = np.lexsort((written, new))
        same = new[order][1:] == new[order][:-1]
        # Checked before anything is written: records with equal keys must have equal check words.
        self._refuse_key_collisions(new[order], words[order], same)
        winners = order[np.concatenate((~same, [True]))] if len(order) else order
        won = np.zeros(len(old), bool)
        won[winners] = True
        stays = (old == new) & (words == np.frombuffer(b"".join(checks), ">u8"))
        # Old keys that change are deleted. A superseded record that is at its new key already is overwritten there.
        leaves = old != new
        self.gone = [keys[place] for place in np.flatnonzero(leaves).tolist()]
        self.merged = int(len(old) - len(winners))
        # A record that keeps its key needs no entry, unless the journals do not reach back to its last entry.
        again = won if whole else won & ~stays
        chosen = np.flatnonzero(again)
        # Published in the order in which they were written, which keeps the order by time.
        self.kept = chosen[np.argsort(written[chosen], kind="stable")]
        # A key is inserted unless it has a record already that is not moved.
        # Converted to native byte order: numpy.isin computes with the numbers if their range is small.
        self._fresh = ~np.isin(new.astype("u8"), old[~leaves].astype("u8"))

    def plan_orphan_deletions(self, folded: CurrentSource) -> None:
        """Also delete keys that only the journal has, for example of expired records that were removed."""
        np, known = self._np, {self._keys[at : at + 8] for at in range(0, len(self._keys), 8)}
        rows = np.frombuffer(self._digests, DIGEST_DTYPE)
        # Keys of published records must not be deleted.
        targets = {int(key).to_bytes(8, "big") for key in rows["key"][self.kept].tolist()} if len(rows) else set()
        for keys, values in folded.read_batches(STORE_LIMITS.read_batch_records):
            others = set(self._present.find_misplaced(keys, values)) if self._present.known else set(range(len(keys)))
            self.gone += [
                key for place, key in enumerate(keys) if place in others and key not in known and key not in targets
            ]

    def iterate_batches(self, sources: Sequence[CurrentSource], at: int) -> Iterator[EntryBatch]:
        """Yield the entries: deletions first, so that a key that passes to another record ends with that record."""
        gone = sorted(self.gone)
        for start in range(0, len(gone), STORE_LIMITS.read_batch_records):
            part = gone[start : start + STORE_LIMITS.read_batch_records]
            # The live source is read last and overrides the other: its check words are those of the current records.
            found = {
                key: value for source in sources[::-1] for key, value in zip(*source.find_records(part), strict=True)
            }
            keys = sorted(found)
            values = [found[key] for key in keys]
            names = [read_logical_topic(value) for value in values] if self._topic.pattern is not None else None
            yield build_deletions(self._topic.ref, keys, read_checks(values), at, names)
        # Payloads are read part by part, so memory has only one part of them, regardless of the number of records.
        for start in range(0, len(self.kept), STORE_LIMITS.read_batch_records):
            yield self._build_publish_batch(
                sources[0], self.kept[start : start + STORE_LIMITS.read_batch_records].tolist(), at
            )

    def _make_present_keys(self, keys: list[bytes], values: list[bytes]) -> list[bytes]:
        found: list[bytes] = []
        for key, value, digest in zip(
            keys, values, self._present.compute_digests(keys, values, null=False), strict=True
        ):
            if digest is None and self._present.compute_digests([key], [value]) == [key + read_check(value)]:
                digest = key + read_check(value)  # published with a NULL key on purpose: it keeps that key
            if digest is None:
                raise self._describe_keyless(key)
            found.append(digest)
        return found

    def _describe_keyless(self, key: bytes) -> RefusedError:
        topic = self._topic
        return RefusedError(
            "SOW-RPL-011",
            f"record {int.from_bytes(key, 'big')} of topic {topic.name!r} has no key in the current "
            "definition: "
            + ("its publisher gave none" if topic.key_mode == "user" else "a key field is missing or not a valid key"),
            hint="nothing was changed; restore the previous Key, delete or correct such records, then change it again",
            topic=topic.name,
            sow_key=int.from_bytes(key, "big"),
        )

    def _refuse_key_collisions(self, new: Any, words: Any, same: Any) -> None:
        wrong = self._np.flatnonzero(same & (words[1:] != words[:-1]))
        if len(wrong):
            raise RefusedError(
                "SOW-RPL-013",
                f"two records of topic {self._topic.name!r} with different key values have the same SOW "
                f"key in the current definition: {int(new[wrong[0]])}",
                hint="nothing was changed; without a KeyDomain, each logical topic has its own keys",
                topic=self._topic.name,
            )

    def _build_publish_batch(self, source: CurrentSource, rows: list[int], at: int) -> EntryBatch:
        """Build entries that publish the records ``rows`` under their new keys, all with time ``at``."""
        olds = [self._keys[8 * row : 8 * row + 8] for row in rows]
        found = dict(zip(*source.find_records(olds), strict=True))
        records = [decode_record(key, found[key]) for key in olds]
        every = DigestSequence(self._digests)
        digests = [every[row] for row in rows]
        texts = collect_texts(records)
        if self._topic.key_mode != "user":
            del texts["user_keys"]
        return EntryBatch(
            topic_refs=[self._topic.ref],
            payloads=[record.payload for record in records],
            keys=list(map(digest_key, digests)),
            checks=list(map(digest_check, digests)),
            times=at,
            expirations=[record.expiration for record in records],
            flags=[INSERTED_FLAG if self._fresh[row] else 0 for row in rows],
            **texts,
        )

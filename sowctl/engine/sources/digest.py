"""The digest of a topic's state, equal for all stores with the same records (``sow-store(5)``, digest).

It is the sum modulo 2**128 over the records and retained versions that are visible at a clock. The stored sum is used
if the journal has no later changes and no record is hidden; otherwise it is corrected, or, for a past state, computed
from the records. ``hash`` prints it, ``info`` shows it for logical topics, ``replay --verify`` compares it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.sources.current import CurrentSource
from sowctl.engine.sources.opener import Opener, open_present_source, open_source
from sowctl.engine.sources.versions import VersionsSource
from sowctl.engine.topics.expiration import can_expire, is_expired
from sowctl.engine.topics.positions import NO_STORE_CODE, add_replay_hint
from sowctl.engine.topics.retention import build_retention, encode_version, prune_versions
from sowctl.engine.topics.targets import Target
from sowctl.errors import MissingError
from sowctl.store.codec import extract_payloads as payloads_of
from sowctl.store.codec import read_expiration, read_txid
from sowctl.store.integrity import DIGEST_MODULUS, compute_digest_sum, compute_digest_term
from sowctl.store.limits import STORE_LIMITS

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source


DIGEST_DIGITS = 32
"""Hexadecimal digits of a digest."""


class Digest(Struct, frozen=True):
    """A digest of one topic. ``note`` says why it may differ from another store's although nothing is wrong."""

    topic: str
    message_type: str
    digest: str
    records: int
    versions: int
    txid: int
    note: str | None = None


class CombinedDigest(Struct, frozen=True):
    """The digest of several topics, and the digests of each."""

    digest: str
    topics: list[Digest]


def combine_digests(named: Sequence[tuple[str, Digest]]) -> CombinedDigest:
    """Combine the digests of topics, each with its name: SHA-256, truncated to 32 digits, of sorted lines.

    A line is the name, a dot, the message type, a space and the digest, as specified in sowctl-hash(1), so that others
    can compute it. It does not depend on the order of the topics.
    """
    lines = sorted(
        f"{name}.{one.message_type} {one.digest}\n".encode("utf-8", "surrogateescape") for name, one in named
    )
    return CombinedDigest(sha256(b"".join(lines)).hexdigest()[:DIGEST_DIGITS], [one for _, one in named])


def compute_digest(
    instance: Instance,
    target: Target,
    at: int | None = None,
    opener: Opener = open_source,
    *,
    payloads: bool = False,
    partial: bool = False,
) -> Digest:
    """Return the digest of a target now, or of the records as of ``at`` (microseconds UTC; then without versions).

    For a logical topic, only of its records; likewise for a view, which ``opener`` opens. ``payloads``: only of the
    keys and payloads of the current records, without times, txids, lifetimes and versions. ``partial``: only of the
    records that ``opener`` selects, without versions.
    """
    if payloads:
        return _digest_records(opener(instance, target, at), payloads=True)
    # The stored sum is that of the whole current store; it does not apply to a part of it, or to a past state.
    topic = target.topic
    if partial or at is not None or (topic is not None and (topic.logical is not None or topic.derived is not None)):
        return _digest_records(opener(instance, target, at))
    try:
        source = open_present_source(instance, target)
    except MissingError as error:
        if error.code != NO_STORE_CODE:
            raise
        return _digest_records(opener(instance, target, None))
    with closing(source), add_replay_hint(target.topic):
        return compute_current_digest(source, target, instance.now)


def compute_current_digest(source: CurrentSource, target: Target, now: int) -> Digest:
    """Return the digest of the current state of an open target, with expiration evaluated at ``now``."""
    history = target.topic.history if target.topic is not None else None
    count = _sum_versions if history is not None else _sum_current_records
    total, records, versions = count(source, target, now)
    note = None
    if target.topic is not None and now < source.meta.removal_mark:
        note = "the clock is earlier than the last removal of expired records: a rebuilt store may have more records"
    return Digest(source.topic, source.message_type, format_digest(total), records, versions, source.last_txid, note)


def format_digest(total: int) -> str:
    """Return the digest as 32 hexadecimal digits."""
    return f"{total % DIGEST_MODULUS:0{DIGEST_DIGITS}x}"


def _sum_current_records(source: CurrentSource, target: Target, now: int) -> tuple[int, int, int]:
    """Return the stored sum and counts, corrected for memtable changes and expired records."""
    meta, snapshot = source.meta, source.snapshot
    total, records = meta.digest, meta.records
    memtable = source.memtable
    rule = target.topic.expiration if target.topic is not None else None
    # A sum can be corrected: subtract replaced and hidden records, add new ones.
    for replaced, fresh in source.iterate_changes():
        total -= compute_digest_sum(replaced, replaced.values())
        records -= len(replaced)
        for key, value in fresh.items():
            if value is not None and not (rule is not None and is_expired(rule, read_expiration(value), now)):
                total += compute_digest_term(key, value)
                records += 1
    if rule is not None and can_expire(rule):
        hidden = sorted(snapshot.iter_expired_keys(now))
        for start in range(0, len(hidden), STORE_LIMITS.read_batch_records):
            keys = hidden[start : start + STORE_LIMITS.read_batch_records]
            # An expired record with a memtable's key has been subtracted already.
            changed = memtable.find_values(keys) if memtable is not None else {}
            found = snapshot.read_values([key for key in keys if key not in changed])
            total -= compute_digest_sum(found, found.values())
            records -= len(found)
    return total, records, meta.versions


def _sum_versions(source: CurrentSource, target: Target, now: int) -> tuple[int, int, int]:
    """Return the sum and counts of every retained version within the window, and of the current records."""
    assert target.topic is not None
    rule = build_retention(target.topic.history)
    assert rule is not None
    total = records = versions = 0
    view = VersionsSource(source, target.topic, now)
    for key, timeline in view.iterate_timelines(STORE_LIMITS.read_batch_records):
        # Versions that a writer would drop by now do not count, whether or not they have been dropped: equal stores
        # must have equal sums.
        kept = prune_versions(timeline, now, rule.window)
        total += sum(compute_digest_term(key, encode_version(key, version)) for version in kept)
        # The last version is the record itself, unless the key was deleted.
        current = bool(kept) and not kept[-1].tombstone
        records += current
        versions += len(kept) - current
    return total, records, versions


def _digest_records(source: Source, *, payloads: bool = False) -> Digest:
    total = records = txid = 0
    with closing(source):
        for keys, values in source.read_batches(STORE_LIMITS.read_batch_records):
            total += compute_digest_sum(keys, payloads_of(values) if payloads else values)
            records += len(keys)
            txid = max([txid, *map(read_txid, values)])
    return Digest(source.topic, source.message_type, format_digest(total), records, 0, txid)

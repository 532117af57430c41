"""Verifying a store against the journals: it is rebuilt in a temporary place up to its position, and digests are
compared.

Called by :mod:`sowctl.engine.verbs.replay`, which then only compares. Specified in ``sow-store(5)``, Digest, and
``sowctl-replay(1)``, --verify.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.engine.fold.blocks import read_entry_values
from sowctl.engine.fold.rebuild import RecordCheckFactory, rebuild_stores
from sowctl.engine.fold.tempstore import open_temporary_topic
from sowctl.engine.reports import ReplayReport
from sowctl.engine.sources.current import open_current_source, open_file_source
from sowctl.engine.sources.digest import compute_digest
from sowctl.engine.sources.source import Pairs
from sowctl.engine.topics.positions import OTHER_HISTORY, OTHER_KEYS, build_definition, read_meta, refuse_other_keys
from sowctl.engine.topics.targets import Target
from sowctl.errors import DamageError, MissingError, RefusedError, UsageError
from sowctl.store.codec import TOMBSTONE_FLAG
from sowctl.store.limits import STORE_LIMITS
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import ReplayOptions
    from sowctl.journal.reader import Journal


def verify_store(
    instance: Instance, log: Journal, topic: TopicConfig, options: ReplayOptions, check_of: RecordCheckFactory
) -> ReplayReport:
    """Rebuild the store in a temporary place, up to the live one's position, and compare digests at one clock.

    ``verified`` and ``differs`` refer to a whole store. If the journals start after the topic, a store that agrees with
    the remaining ones is ``not verified``: its older records can be neither confirmed nor refuted.

    ``check_of`` is that of a rebuild for writers.

    Raises UsageError ``SOW-RPL-005`` for an instant to stop at, and DamageError if the journal is damaged.
    """
    now = instance.now
    # One clock for both stores: a record that expires between the two reads would look like a difference.
    frozen = replace(instance, clock=lambda: now)
    if options.until_txid is not None or options.until_time is not None:
        raise UsageError("SOW-RPL-005", "--verify compares the current state, so it cannot be combined with --until")
    if topic.file is None:
        return ReplayReport.for_topic(topic, "skipped", note="the topic is transient: it has no file")
    ref = topic.ref
    if not topic.file.exists():
        if log.find_topic_state(ref).last_txid == 0:
            return ReplayReport.for_topic(topic, "skipped", note="no message was ever published")
        return ReplayReport.for_topic(topic, "differs", note="the store is missing")
    try:
        meta = read_meta(topic.file, instance)
        live = compute_digest(frozen, Target(topic=topic))
        assert instance.config is not None
        refuse_other_keys(topic, build_definition(instance.config.name, topic), meta.definition)
        # In a temporary place: comparing changes nothing, and needs no lock.
        with open_temporary_topic(topic, "verify") as beside:
            # Up to the txid that the live state includes, so that entries appended in the meantime do not differ.
            built = rebuild_stores(frozen, log, [beside], until=live.txid, check_of=check_of)[0]
            report = replace(built, topic=topic).build_report("verified")
            report.digest = live.digest
            # The journals do not reach back: a store built from them lacks older records, so digests cannot be equal.
            if not log.covers_topic(ref):
                return _verify_remaining_entries(frozen, log, topic, live.txid, beside, report)
            other = compute_digest(frozen, Target(topic=replace(beside, journalled=False)))
    except (MissingError, DamageError, RefusedError) as error:
        # Damage of the store is a result: it differs. Damage of the journal is an error, because there is nothing to
        # compare with.
        if not (error.code.startswith("SOW-STO-") or error.code in (OTHER_HISTORY, OTHER_KEYS)):
            raise  # the journal is damaged, or does not cover the store: nothing was compared
        return ReplayReport.for_topic(topic, "differs", note=error.message)
    if other.digest != live.digest:
        report.action, report.other_digest, report.note = "differs", other.digest, live.note
    return report


def _verify_remaining_entries(
    instance: Instance, log: Journal, topic: TopicConfig, until: int, beside: TopicConfig, report: ReplayReport
) -> ReplayReport:
    """Verify a store if older journals were removed: compare the last entry of each key in the remaining ones."""
    assert beside.file is not None
    ref = topic.ref
    begin = f"the journals begin at txid {log.first_txid}"
    deleted: set[bytes] = set()
    for block in log.iter_blocks(topic=ref, until=until):
        for key, value in zip(*read_entry_values(block, ref, until=until), strict=True):
            # In txid order, so the set has the keys whose last entry is a deletion.
            (deleted.add if value[0] & TOMBSTONE_FLAG else deleted.discard)(key)
    compared = wrong = 0
    with (
        closing(open_current_source(instance, topic)) as live,
        closing(open_file_source(instance, beside.file)) as then,
    ):
        gone = sorted(deleted)
        parts: Iterator[Pairs] = (
            (gone[at : at + STORE_LIMITS.read_batch_records], [])
            for at in range(0, len(gone), STORE_LIMITS.read_batch_records)
        )
        for keys, values in chain(then.read_batches(STORE_LIMITS.read_batch_records), parts):
            found = dict(zip(*live.find_records(keys), strict=True))
            expected = dict(zip(keys, values, strict=False))
            if live.hides:
                # Expired records are hidden here and possibly removed there: neither is a difference.
                from sowctl.engine.topics.expiration import find_unexpired

                shown = find_unexpired(values, instance.now)
                expected = {keys[place]: values[place] for place in shown}
            compared += len(keys)
            wrong += sum(found.get(key) != expected.get(key) for key in keys)
    if wrong:
        report.action, report.note = (
            "differs",
            f"{wrong:,} of {format_count(compared, 'compared key')} {'differs' if wrong == 1 else 'differ'}; {begin}",
        )
        return report
    report.action = "not verified"
    agreeing = format_count(compared, "compared key agrees", "compared keys agree")
    report.note = f"{begin}: earlier records cannot be compared; {agreeing}"
    return report

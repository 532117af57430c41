"""Recovery of a topic with a missing store, or without one: its start in the journal, and a temporary store for
readers.

The start is the topic's RecoveryPoint (``behaviour`` 1.6). Readers and writers use the same function, so that both see
the same records. ``replay`` starts at the beginning of the log instead.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from sowctl.engine.topics.log_places import find_last_entry
from sowctl.engine.topics.positions import (
    has_log,
    make_no_store_error,
    make_not_covered_error,
    notify_skipped_tail,
    open_log,
)
from sowctl.identity.bookmarks import EPOCH, NOW, Bookmark, parse_bookmark
from sowctl.journal.state import EMPTY_TOPIC_STATE
from sowctl.values.times import parse_time

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal


def find_recovery_start(topic: TopicConfig, log: Journal, instance: Instance) -> int:
    """Return the txid after which the store of a topic starts: 0 for the whole log, its last txid for nothing.

    A bookmark starts after its entry, the last one if a group has several; an unknown one at the end of the log
    (``behaviour`` 4.6), which is reported to ``instance.notify``. A timestamp starts with the first entry at or after
    it.
    """
    point = topic.recovery_point.strip()
    if point.lower() == "epoch":
        return 0
    if point.lower() == "now":
        return log.read_last_txid()
    if "|" in point or point == "0":
        return _find_configured_start(parse_bookmark(point), topic, log, instance)
    return _find_start_since(parse_time(point, instance.clock), topic, log)


def has_all_entries(topic: TopicConfig, log: Journal, start: int) -> bool:
    """Return whether the journals have all entries of a topic after ``start``."""
    # The oldest file records the last entry of every topic in the files before it: if that is not needed, nothing is
    # missing.
    return log.covers_topic_after(topic.ref, start)


def _find_configured_start(wanted: Bookmark, topic: TopicConfig, log: Journal, instance: Instance) -> int:
    if wanted == EPOCH:
        return 0
    if wanted == NOW:
        return log.read_last_txid()
    found = find_last_entry(log, wanted, instance)
    if found is not None:
        return found.txid
    instance.notify(
        f"the RecoveryPoint {wanted} of topic {topic.name!r} is not in the journals: no record is recovered"
    )
    return log.read_last_txid()


def _find_start_since(since: int, topic: TopicConfig, log: Journal) -> int:
    ref = topic.ref
    gone = log.find_prior_state(ref)
    # If a removed file had an entry at or after this time, the topic starts before the remaining files, and is not
    # covered.
    if gone.last_time >= since:
        return 0
    # The checkpoints of a few files show which one has the first such entry: earlier files are not read.
    start = log.find_txid_before_file(lambda state: state.topic_states.get(ref, EMPTY_TOPIC_STATE).last_time >= since)
    last = max(gone.last_txid, start)
    for block in log.iter_blocks(after=start, topic=ref):
        # All entries of the block are older, whatever their topic: no column of it is read.
        if block.header.latest < since:
            last = block.last_txid
            continue
        own = [entry for entry in block.iter_entries() if entry.topic == ref]
        before = [entry.txid for entry in own if entry.time < since]
        last = max([last, *before])
        # Times never decrease within a topic, so its first such entry ends the search. That of another topic does not.
        if len(before) < len(own):
            break
    return last


def find_rebuild_start(instance: Instance, topic: TopicConfig, log: Journal) -> int:
    """Return the txid after which ``log`` has all entries of a topic whose store is missing; its files must stay from
    now on.

    Raises MissingError ``SOW-ENG-010`` if nothing was ever published, ``SOW-ENG-011`` if the journals do not reach
    back.
    """
    # Without an entry of the topic there is no store: readers get an error rather than an empty state.
    if log.find_topic_state(topic.ref).last_txid == 0:
        raise make_no_store_error(topic)
    start = find_recovery_start(topic, log, instance)
    # Files pruned between this check and the fold would be missing in the state that readers see.
    log.require_files_after(start)
    if topic.durability == "persistent" and not has_all_entries(topic, log, start):
        raise make_not_covered_error(topic, log)
    if topic.file is not None:
        instance.notify(f"the store of topic {topic.name!r} is missing: reading the journals instead")
    return start


def rebuild_aside(instance: Instance, topic: TopicConfig, stack: ExitStack) -> Path:
    """Build a store for a topic without one in a temporary directory, removed when ``stack`` is closed; return its
    path.

    Raises MissingError ``SOW-ENG-010`` if nothing was ever published, ``SOW-ENG-011`` if the journals do not reach
    back.
    """
    from sowctl.engine.fold.rebuild import rebuild_stores
    from sowctl.engine.fold.tempstore import open_temporary_topic

    if not topic.journalled or not has_log(instance):
        raise make_no_store_error(topic)
    with open_log(instance, whole=True) as log:
        start = find_rebuild_start(instance, topic, log)
        moved = stack.enter_context(open_temporary_topic(topic, "rebuilt"))
        rebuild_stores(instance, log, [moved], after={topic.ref: start})
        notify_skipped_tail(instance, log)
        assert moved.file is not None
        return moved.file

"""Recovery of a topic whose store is missing, or that has none: where it begins, and a store in its place for readers.

Where it begins is the topic's RecoveryPoint (``behaviour`` 1.6). Readers and writers ask alike, so that both see the
same records. ``replay`` begins at the log's beginning instead.
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
    """The txid behind which the store of a topic begins: 0 for all of the log, its last for nothing.

    A bookmark begins behind its entry, the last one if a group has several; an unknown one at the log's end
    (``behaviour`` 4.6), and ``instance.notify`` is told so. A timestamp begins with the first entry that is not older.
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
    """Return whether the journals hold all entries of a topic behind ``start``."""
    # The oldest file notes the last entry of every topic in the files before it: if that is not wanted, nothing is
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
    # If an entry of the files that are gone was late enough, the topic begins before what is left, and is not covered.
    if gone.last_time >= since:
        return 0
    # The checkpoints of a few files tell in which one the first late entry stands: what is before it is not walked.
    start = log.find_txid_before_file(lambda state: state.topic_states.get(ref, EMPTY_TOPIC_STATE).last_time >= since)
    last = max(gone.last_txid, start)
    for block in log.iter_blocks(after=start, topic=ref):
        # Every entry of the block is older, whatever its topic: no column of it is read.
        if block.header.latest < since:
            last = block.last_txid
            continue
        own = [entry for entry in block.iter_entries() if entry.topic == ref]
        before = [entry.txid for entry in own if entry.time < since]
        last = max([last, *before])
        # Times do not go back within a topic, so its first late entry ends the search. That of another topic does not.
        if len(before) < len(own):
            break
    return last


def find_rebuild_start(instance: Instance, topic: TopicConfig, log: Journal) -> int:
    """The txid behind which ``log`` has all entries of a topic whose store is missing; its files must stay from now on.

    Raises MissingError ``SOW-ENG-010`` where nothing was ever published, ``SOW-ENG-011`` where the journals do not
    reach back.
    """
    # A journal without an entry of the topic makes no store: readers are told so, rather than shown an empty state.
    if log.find_topic_state(topic.ref).last_txid == 0:
        raise make_no_store_error(topic)
    start = find_recovery_start(topic, log, instance)
    # Files that are pruned between the question and the fold would be missing in what readers are shown.
    log.require_files_after(start)
    if topic.durability == "persistent" and not has_all_entries(topic, log, start):
        raise make_not_covered_error(topic, log)
    if topic.file is not None:
        instance.notify(f"the store of topic {topic.name!r} is missing: reading the journals instead")
    return start


def rebuild_aside(instance: Instance, topic: TopicConfig, stack: ExitStack) -> Path:
    """The path of a store for a topic that has none: built in a temporary directory, which goes when reading ends.

    Raises MissingError ``SOW-ENG-010`` where nothing was ever published, ``SOW-ENG-011`` where the journals do not
    reach back.
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

"""expire: removes expired data from the files. Reads do not need it; it frees space.

Expired data are records whose expiration has passed, and versions outside their topic's window. No entry is written:
expiration follows from stamps and clock, in every replay alike (``behaviour`` 1.5, 2.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.removal import count_unreachable, remove_all_expired, remove_unreachable
from sowctl.engine.reports import ExpireReport
from sowctl.engine.sources.current import open_current_source
from sowctl.engine.topics.expiration import can_expire
from sowctl.engine.topics.positions import add_replay_hint
from sowctl.engine.topics.retention import build_retention
from sowctl.engine.writing.session import WriteSession
from sowctl.errors import MissingError

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.store.env import Store


def expire_records(instance: Instance, topics: Sequence[TopicConfig], *, dry_run: bool = False) -> list[ExpireReport]:
    """Remove the expired records of ``topics``, and versions that no query can reach any more.

    Topics without expiration and topics without a store report 0; a transient topic has no file to clean up.

    Raises what opening for writing raises.
    """
    # One clock for all topics, and for the report.
    now = instance.now
    reports = []
    with WriteSession(instance) as session:
        for topic in topics:
            count = versions = 0
            if topic.file is not None and topic.file.exists():
                if can_expire(topic.expiration):
                    count = _count_expired(instance, topic, now) if dry_run else _remove_records(session, topic, now)
                elif topic.history is not None:
                    versions = (
                        _count_old_versions(instance, topic, now) if dry_run else _remove_versions(session, topic, now)
                    )
            reports.append(ExpireReport(topic.name, topic.message_type, count, now, dry_run, versions))
    return reports


def _remove_records(session: WriteSession, topic: TopicConfig, now: int) -> int:
    return _run_in_store(session, topic, lambda store: remove_all_expired(store, now))


def _remove_versions(session: WriteSession, topic: TopicConfig, now: int) -> int:
    rule = build_retention(topic.history)
    assert rule is not None
    return _run_in_store(session, topic, lambda store: remove_unreachable(store, rule, now))


def _run_in_store(session: WriteSession, topic: TopicConfig, run: Callable[[Store], int]) -> int:
    """Call ``run`` under the lock of a store that is up to date with its journal."""
    writer = session.open_store(topic)
    # Expired records are removed and counted below; applying and merging must not remove them before.
    writer.remove_expired_at = None
    with session.hold_batch_locks([writer], merge_first=True):
        if writer.journalled:
            # Apply the journal first: it may have a successor of an expired record.
            session.flush_forced()
        # One lock for all transactions: no record changes between the search and its removal.
        with writer.store.hold_writer_lock(), add_replay_hint(topic):
            return run(writer.store)


def _count_expired(instance: Instance, topic: TopicConfig, now: int) -> int:
    """Return the number of records that are in the files but hidden."""
    try:
        source = open_current_source(instance, topic, now=now)
    except MissingError:
        return 0
    with closing(source):
        return source.count_by_lifetime()[1]


def _count_old_versions(instance: Instance, topic: TopicConfig, now: int) -> int:
    """Return the number of versions that no query can reach."""
    from sowctl.engine.sources.versions import VersionsSource

    rule = build_retention(topic.history)
    assert rule is not None
    with closing(open_current_source(instance, topic, now=now)) as source:
        return count_unreachable(
            VersionsSource(source, topic, now).iterate_timelines(FOLD_LIMITS.version_batch_entries), rule, now
        )

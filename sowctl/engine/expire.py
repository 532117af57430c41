"""expire: remove from the files what has expired at the clock. Reads do not need it; it gives room back.

Nothing is journalled: what has expired follows from stamp and clock, for every replay alike (``semantics`` 1.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.engine.apply import remove_expired
from sowctl.engine.lifetime import expires, is_expired
from sowctl.engine.reports import ExpireReport
from sowctl.engine.session import WriteSession
from sowctl.engine.sources import open_current
from sowctl.errors import MissingError
from sowctl.store.codec import expiration_of

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.store.write import WriteTxn


def expire(instance: Instance, topics: Sequence[TopicConfig], *, dry_run: bool = False) -> list[ExpireReport]:
    """Remove the expired records of ``topics``; those whose stamps have no effect, or without a store, report 0.

    Raises what opening for writing raises.
    """
    now = instance.now
    reports = []
    with WriteSession(instance) as session:
        for topic in topics:
            count = 0
            if expires(topic.expiration) and (topic.file is None or topic.file.exists()):
                count = _count(instance, topic, now) if dry_run else _remove(session, topic, now)
            reports.append(ExpireReport(topic.name, topic.message_type, count, now, dry_run))
    return reports


def _remove(session: WriteSession, topic: TopicConfig, now: int) -> int:
    writer = session.topic(topic)
    with session.batch([writer]):
        writer.remove_expired_at = None
        if writer.journalled:
            session.apply(force=True)

        def run(txn: WriteTxn) -> int:
            return remove_expired(txn, now)

        return writer.store.write(run)


def _count(instance: Instance, topic: TopicConfig, now: int) -> int:
    """How many records are in the files but hidden."""
    try:
        source = open_current(instance, topic, now=now)
    except MissingError:
        return 0
    with closing(source):
        overlay = source.overlay.current if source.overlay is not None else {}
        hidden = sum(1 for key in source.snapshot.expired(now) if key not in overlay)
        rule = topic.expiration
        return hidden + sum(
            1 for value in overlay.values() if value is not None and is_expired(rule, expiration_of(value), now)
        )

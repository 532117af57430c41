"""The report of a run of publish: counts durable batches, notifies the caller of them, and warns about entries.

Called by :mod:`sowctl.engine.verbs.publish`, and with the entries of each topic by
:mod:`~sowctl.engine.writing.group_commit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sowctl.engine.reports import PublishReport, TopicCounts
from sowctl.engine.topics.expiration import can_expire
from sowctl.engine.writing.commit import AcknowledgedBatch
from sowctl.engine.writing.outcome import format_clock_warning, is_ahead_of_clock
from sowctl.interrupts import allow_interrupts

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.reports import TornTail
    from sowctl.engine.writing.commit import WrittenBatch
    from sowctl.engine.writing.entries import TopicEntries
    from sowctl.values.topicref import TopicRef


class ReportBuilder:
    """Builds ``report``. ``on_acknowledged`` is called for each counted group or transaction."""

    def __init__(
        self,
        instance: Instance,
        torn_tails: list[TornTail],
        on_acknowledged: Callable[[AcknowledgedBatch], None] | None,
        *,
        dry_run: bool,
    ) -> None:
        self.report = PublishReport(dry_run=dry_run, durable=not dry_run, torn_tails=torn_tails)
        self._instance = instance
        self._on_acknowledged = on_acknowledged
        self._counts: dict[TopicRef, TopicCounts] = {}

    def get_counts(self, ref: TopicRef) -> TopicCounts:
        """Return the counts of one topic in the report, and add its row if it has none."""
        if ref not in self._counts:
            self._counts[ref] = TopicCounts(*ref)
            self.report.topics.append(self._counts[ref])
        return self._counts[ref]

    def count_batch(self, written: WrittenBatch) -> None:
        """Count a batch that is durable."""
        report, batch = self.report, written.batch
        report.blank += batch.blank
        report.messages += len(batch.payloads) + len(batch.refused)
        report.published += sum(map(len, written.parts))
        for part in written.parts:
            report.bytes += sum(map(len, part.batch.payloads))
            # One volatile topic is enough: its messages do not survive a crash.
            report.durable = report.durable and not part.writer.is_volatile
            total = self.get_counts(part.writer.ref)
            counts = part.count_outcomes()
            total.add_counts(counts)
            report.add_counts(counts)
        for payloads, first in written.groups:
            report.first_txid = report.first_txid or first
            report.last_txid = first + len(payloads) - 1

    def notify_acknowledged(self, written: WrittenBatch) -> None:
        """Notify the caller of a counted batch."""
        if self.report.dry_run:
            self._instance.watch("bytes", written.batch.end_offset, 0)
        if self._on_acknowledged is None:
            return
        for payloads, first in written.groups:
            last = first + len(payloads) - 1
            with allow_interrupts():  # the caller may take its time
                self._on_acknowledged(AcknowledgedBatch(payloads, first, last, written.batch, self.report.durable))

    def note_entries(self, part: TopicEntries, now: int) -> None:
        """Warn, once per run, about times and lifetimes of entries that will be written at ``now``."""
        self._warn_clock_ahead(part, now)
        self._note_ignored_lifetimes(part)

    def _warn_clock_ahead(self, part: TopicEntries, now: int) -> None:
        """Warn that a topic gets times far ahead of the clock; times within a topic never decrease."""
        if len(part) and is_ahead_of_clock(part.batch.last_time, now):
            if self.report.ahead is None:
                self._instance.notify(format_clock_warning(part.writer.ref.name, part.batch.last_time))
            self.report.ahead = max(self.report.ahead or 0, part.batch.last_time)

    def _note_ignored_lifetimes(self, part: TopicEntries) -> None:
        """Count lifetimes that have no effect because Expiration is disabled, and report that once for each topic."""
        config = part.writer.config
        if can_expire(config.expiration) or config.key_mode == "none":
            return
        if count := len(part) - part.batch.list_numbers("expirations").count(0):
            self.report.lifetimes_ignored += count
            # A topic with History cannot have Expiration.
            remedy = ""
            if config.history is None:
                import shlex

                name = shlex.quote(config.name)
                remedy = f"; to let them expire: sowctl config add expiration {name} enabled"
            self._instance.notify_once(
                f"lifetimes of {config.name}",
                f"topic {config.name!r} has no Expiration: the lifetimes of its records have no effect{remedy}",
            )

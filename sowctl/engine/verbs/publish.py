"""publish: writes messages to topics in batches; acknowledged when in the journal and synced (principle 2).

A topic without a journal acknowledges with its store's synced transaction. Rejected messages are reported and counted;
messages acknowledged before an error stay, and the report has the position in the input.

Three objects have one task each: :mod:`~sowctl.engine.writing.publish_input` reads,
:mod:`~sowctl.engine.writing.group_commit` writes, syncs and acknowledges, and
:mod:`~sowctl.engine.writing.publish_report` counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from sowctl.engine.options import PublishOptions
from sowctl.engine.writing.group_commit import GroupCommit
from sowctl.engine.writing.publish_input import PublishInput
from sowctl.engine.writing.publish_report import ReportBuilder
from sowctl.engine.writing.refusal_policy import RefusalPolicy
from sowctl.engine.writing.routing import Router
from sowctl.engine.writing.session import WriteSession
from sowctl.errors import SowError, UsageError
from sowctl.interrupts import without_interrupts

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.reports import InputRest, PublishReport, Rejected
    from sowctl.engine.writing.batches import MessageSource
    from sowctl.engine.writing.commit import AcknowledgedBatch, WrittenBatch
    from sowctl.engine.writing.prepare import Preparer
    from sowctl.engine.writing.routing import TopicReference
    from sowctl.engine.writing.topicwriter import TopicWriter

DEFAULT_LINGER_SECONDS = 0.1
DEFAULT_OPTIONS = PublishOptions()


def publish_messages(
    instance: Instance,
    topic: str | None,
    sources: Iterable[tuple[str, MessageSource]],
    options: PublishOptions = DEFAULT_OPTIONS,
    *,
    message_type: str | None = None,
    on_acknowledged: Callable[[AcknowledgedBatch], None] | None = None,
    on_reject: Callable[[Rejected], None] | None = None,
    on_broken_off: Callable[[InputRest], None] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> PublishReport:
    """Publish the messages of ``sources`` (name and source each) to ``topic``, or to the topics in their envelopes.

    Raises InputError (exit 3) at the first rejected message unless ``on_error`` is skip, LimitError (exit 7) beyond
    ``max_errors``, and what stores and journals raise. An error has the report so far in ``facts["report"]``. If an
    error or an interrupt ends the run, ``on_broken_off`` is called with the start of the rest of the input: publishing
    from there publishes each valid message once. It is not called if a second run could not repeat anything durable:
    after a dry run, or for topics that keep nothing.
    """
    with ExitStack() as stack:
        with without_interrupts():  # between the two, an interrupt would leave stores open
            target = topic, message_type
            run = _PublishRun(instance, target, options, on_acknowledged, on_reject, monotonic)
            stack.callback(run.close)
        started = monotonic()
        try:
            if options.on_error == "abort":
                run.publish_atomically(sources)
            else:
                run.publish_stream(sources)
        except (SowError, OSError, KeyboardInterrupt) as error:
            try:
                run.abort(error)
            finally:
                if on_broken_off is not None and run.report.durable:
                    on_broken_off(run.input.build_rest(run.report.published))
            raise
        finally:
            run.report.seconds = monotonic() - started
            run.note_end()
        return run.report


class _PublishRun:
    """One run of publish: the input, the group commits and the report, and the session that they share."""

    def __init__(
        self,
        instance: Instance,
        target: TopicReference,
        options: PublishOptions,
        on_acknowledged: Callable[[AcknowledgedBatch], None] | None,
        on_reject: Callable[[Rejected], None] | None,
        monotonic: Callable[[], float],
    ) -> None:
        """``target``: topic and message type that the command names."""
        if options.sequence is not None and options.client is None:
            raise UsageError(
                "SOW-PUB-013", "--sequence requires --client: sequence numbers belong to a named publisher"
            )
        if options.batch is not None and not 1 <= options.batch <= 1_000_000:
            raise UsageError("SOW-PUB-014", f"invalid batch size {options.batch}")
        log = instance.log
        default = log.flush_interval_us / 1e6 if log is not None else DEFAULT_LINGER_SECONDS
        linger = options.linger if options.linger is not None else default
        self.session = WriteSession(instance, dry_run=options.dry_run, volatile=options.allow_volatile)
        self.counts = ReportBuilder(instance, self.session.torn, on_acknowledged, dry_run=options.dry_run)
        self.report: PublishReport = self.counts.report
        refusals = RefusalPolicy(options, self.report, on_reject)
        # Opening a topic takes locks, so a group that holds them is finished first.
        self.router = Router(self.session, target, options, lambda: self.commits.finish())
        self.commits = GroupCommit(
            self.session,
            self.router,
            refusals,
            self.counts,
            options,
            linger=linger,
            monotonic=monotonic,
            on_durable=self.note_durable,
        )
        try:
            found = self.open_named_topic(*target)
        except BaseException:
            self.close()
            raise
        self.input = PublishInput(options, self.commits, refusals, found, linger=linger, monotonic=monotonic)

    def open_named_topic(self, topic: str | None, message_type: str | None) -> tuple[TopicWriter, Preparer] | None:
        """Open the topic that the command names; return None if envelopes name it."""
        if topic is None:
            return None
        writer, preparer, _ = self.router.open_target(topic, message_type)
        self.counts.get_counts(writer.ref)
        return writer, preparer

    def publish_stream(self, sources: Iterable[tuple[str, MessageSource]]) -> None:
        """Publish batch after batch; each is acknowledged before the run waits for more input."""
        for name, source in sources:
            with closing(self.input.iterate_batches(name, source)) as coming:
                for batch in coming:
                    self.commits.submit(batch)
                self.commits.finish()
            self.input.note_input_end()
        self.flush_final()

    def publish_atomically(self, sources: Iterable[tuple[str, MessageSource]]) -> None:
        """Read everything, then write it as one group; holds the whole input in memory."""
        self.commits.submit(self.input.read_all(sources))
        self.commits.finish()
        self.flush_final()

    def note_durable(self, batches: Sequence[WrittenBatch]) -> None:
        """Count durable batches, then acknowledge them."""
        # All are counted before the first is reported: the caller may abort the run, which then counts them as done.
        for written in batches:
            self.counts.count_batch(written)
            self.input.note_finished(written)
        for written in batches:
            self.counts.notify_acknowledged(written)

    def flush_final(self) -> None:
        """Flush all acknowledged messages, and save key chains."""
        with without_interrupts():
            self.session.flush_final()
            if not self.session.dry_run:
                self.router.save_chains()

    def note_end(self) -> None:
        """Set the position in the input in the report."""
        if (end := self.input.find_end()) is not None:
            self.report.last_line, self.report.end = end[0] - 1, end[1]

    def abort(self, error: BaseException) -> None:
        """Flush acknowledged messages, so that an error leaves as little as possible to do; then pass the error on."""
        try:
            self.commits.finish()
            self.flush_final()
        except SowError as second:
            if isinstance(error, SowError):
                # The first error is the cause and is raised; acknowledged messages are in the journal, applied or not.
                error.facts.setdefault("while_applying", second.message)
        if isinstance(error, SowError):
            error.facts["report"] = self.report

    def close(self) -> None:
        """Release everything; acknowledged messages are durable."""
        with without_interrupts():
            self.commits.close()
            self.session.close()

"""``sowctl queue run``: a worker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType, QueueName, SummaryAfterOutput
from sowctl.declarations import DOCUMENT, Argument, declare_option
from sowctl.errors import MissingError, UsageError
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from sowctl.engine.instance import Instance
    from sowctl.engine.queues.queue import OpenQueue
    from sowctl.engine.queues.worker import WorkReport

STATUS_EVERY_SECONDS = 0.5
EXAMPLES = (
    "sowctl queue run work -- ./process-order",
    "sowctl queue run work --concurrency 4 --until-empty -- python3 load.py {}",
    "sowctl queue run work --batch 100 --dead-letter failed -- ./load-lines",
)


class QueueRunArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue run``."""

    name: QueueName
    command: Annotated[
        list[str] | None,
        Argument("COMMAND", "Command to run, with its arguments; {} is replaced by a file with the message."),
    ] = None
    concurrency: Annotated[
        int,
        declare_option("--concurrency", help="Number of commands to run at the same time.", metavar="N", minimum=1),
    ] = 1
    batch: Annotated[
        int,
        declare_option("--batch", help="Maximum number of messages per command, one per line.", metavar="N", minimum=1),
    ] = 1
    until_empty: Annotated[bool, declare_option("--until-empty", help="Exit when the queue is empty.")] = False
    backoff: Annotated[
        str,
        declare_option(
            "--backoff",
            help="Delay after the first failure, doubled after each further one.",
            metavar="TIME",
        ),
    ] = "1s"
    dead_letter: Annotated[
        str | None,
        declare_option(
            "--dead-letter", help="Publish dead messages to this topic.", metavar="TOPIC", complete="published"
        ),
    ] = None
    worker: Annotated[
        str | None, declare_option("--worker", help="Name of the worker. Default: its process ID.", metavar="NAME")
    ] = None
    message_type: MessageType = None
    summary: SummaryAfterOutput = None


def run(invocation: Invocation, arguments: QueueRunArguments) -> int:
    """Run COMMAND for each message of a queue, with the message on standard input or in the file that replaces {}.

    Exit status 0 acknowledges the message; any other status cancels it, and it is delivered again after --backoff. The
    lease is renewed while the command runs. With --batch, a command gets several messages, one per line, which are
    acknowledged or cancelled together, up to the MaxPerSubscriptionBacklog of the queue (default 1). A message with
    line feeds occupies several lines. The environment has SOWCTL_QUEUE, SOWCTL_COUNT (the number of messages),
    SOWCTL_BOOKMARK and SOWCTL_DELIVERIES of the first message, and SOWCTL_BARRIER if that is a barrier.

    On SIGTERM and Ctrl-C, the commands are stopped, their messages returned and the counts printed. On a terminal, a
    line shows how many messages are done, failed and waiting. Several workers can process a queue, also on several
    machines that share the files of one host. The exit status is 1 if a message died, or if a command
    failed and the queue delivers at most once, so that its message is lost. A dead message that is rejected by the
    --dead-letter topic stays in the queue.

    The standard output and standard error of the commands are passed on; with --json, both go to standard error. The
    exit status and the last lines of the standard error of the command that failed last are kept with a dead message,
    for sowctl queue peek --state dead.

    To process dead messages again, use sowctl queue requeue. Those that were published to a --dead-letter topic return
    to the queue through the topic that feeds it, for example with sowctl journal dump failed | sowctl publish orders
    --framing envelope. A --dead-letter topic with a key keeps only the last message of each key.
    """
    if not arguments.command:
        raise UsageError("SOW-QUE-012", "a command is required", hint="give it last: sowctl queue run NAME -- COMMAND")
    import os

    from sowctl.engine.queues.worker import Worker, WorkOptions
    from sowctl.engine.verbs.queue import open_queue
    from sowctl.values.units import parse_seconds

    try:
        pause = parse_seconds(arguments.backoff)
    except ValueError as error:
        raise UsageError("SOW-CLI-006", f"--backoff: {error}", hint="use for example 0, 500ms or 10s") from None
    with invocation.open_instance() as instance, open_queue(instance, arguments.name, arguments.message_type) as queue:
        options = WorkOptions(
            arguments.command,
            arguments.worker or f"worker-{os.getpid()}",
            arguments.concurrency,
            arguments.batch,
            arguments.until_empty,
            pause,
            dict(invocation.environ),
            None if arguments.dead_letter is None else _make_publisher(instance, queue, arguments.dead_letter),
            (line := _StatusLine(invocation, queue, has_end=arguments.until_empty)).follow,
            arguments.summary == DOCUMENT,
        )
        if arguments.batch > (most := queue.queue.max_per_subscription_backlog):
            invocation.note(f"--batch {arguments.batch:,} exceeds the MaxPerSubscriptionBacklog of {most:,}")
        work = Worker(queue, options)
        is_done = False
        try:
            work.run()
            is_done = True
        finally:
            line.erase()
            # Also when a signal ends the command: the finished work is reported.
            if is_done or work.report.delivered:
                _show_report(invocation, work.report, arguments.summary, arguments.dead_letter)
    return 1 if work.report.dead or work.report.failed else 0


def _show_report(invocation: Invocation, report: WorkReport, summary: str | None, dead_letter: str | None) -> None:
    from sowctl.cli.io.report_output import show_report

    if summary in ("json", DOCUMENT):
        show_report(invocation, report, "json")
        return
    words = {"buried": f"published to {dead_letter}"}
    counted = [(getattr(report, field), words.get(field, field)) for field in report.__struct_fields__]
    invocation.note(", ".join(f"{count:,} {word}" for count, word in counted if count) or "nothing was pending")


class _StatusLine:
    """One line on standard error with the finished and the pending messages of a worker, at most twice a second.

    ``has_end``: the worker ends by itself. An endless worker prints a note if it finds no message at the beginning.
    """

    def __init__(
        self,
        invocation: Invocation,
        queue: OpenQueue,
        clock: Callable[[], float] = time.monotonic,
        *,
        has_end: bool = True,
    ) -> None:
        self._invocation, self._streams, self._queue, self._clock = invocation, invocation.streams, queue, clock
        self._notes_waiting = not has_end
        self._next = clock() + STATUS_EVERY_SECONDS
        self._drawn = False
        self.is_shown = invocation.shows_progress()
        if self.is_shown:
            self._streams.under = self.erase

    def erase(self) -> None:
        """Erase the line before other output."""
        if self._drawn:
            self._drawn = False
            self._streams.draw_line("")

    def follow(self, report: WorkReport) -> None:
        """Print after the first round that the worker waits, and draw the line if it is shown."""
        from sowctl.engine.queues.reports import compute_depth

        if self._notes_waiting:
            self._notes_waiting = False
            if not report.delivered and compute_depth(self._queue).pending == 0:
                self._invocation.note(
                    f"waiting for messages of queue {self._queue.queue.name!r} until interrupted; "
                    "--until-empty ends the command when the queue is empty"
                )
        if self.is_shown:
            self.draw(report)

    def draw(self, report: WorkReport) -> None:
        """Draw the line, unless it was drawn recently."""
        from sowctl.engine.queues.reports import compute_depth

        now = self._clock()
        if now < self._next:
            return
        self._next = now + STATUS_EVERY_SECONDS
        depth = compute_depth(self._queue)
        waiting = depth.ready + depth.blocked
        parts = [f"{report.acknowledged:,} done", f"{report.failed + report.dead:,} failed", f"{waiting:,} waiting"]
        if report.cancelled or depth.delayed:
            parts.append(f"{format_count(report.cancelled, 'retry', 'retries')}, {depth.delayed:,} of them later")
        self._drawn = self._streams.draw_line(f"queue run: {', '.join(parts)}")


def _make_publisher(instance: Instance, queue: OpenQueue, topic: str) -> Callable[[list[bytes]], None]:
    from sowctl.engine.options import PublishOptions
    from sowctl.engine.topics.targets import find_publish_topic
    from sowctl.engine.verbs.publish import publish_messages
    from sowctl.engine.writing.batches import ListSource

    try:
        letters = find_publish_topic(instance, topic)
    except MissingError as error:
        error.hint = (
            "--dead-letter names a topic, not a file; sowctl config add topic NAME=/key adds one, which keeps the last "
            "message of each key"
        )
        raise
    if queue.takes_topic(letters.label, letters.message_type):
        raise UsageError(
            "SOW-QUE-016",
            f"messages of {letters.label!r} enter the same queue: its dead letters would return forever",
            hint="name a separate topic that UnderlyingTopic does not match",
        )

    def bury(payloads: list[bytes]) -> None:
        publish_messages(instance, topic, [("dead messages", ListSource(payloads))], PublishOptions())

    return bury

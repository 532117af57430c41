"""``sowctl queue run``: a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import MessageType, QueueName, Summary
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sowctl.engine.instance import Instance
    from sowctl.engine.queues.queue import OpenQueue

EXAMPLES = (
    "sowctl queue run work -- ./process-order",
    "sowctl queue run work --concurrency 4 --until-empty -- python3 load.py {}",
    "sowctl queue run work --batch 100 --dead-letter failed -- ./load-lines",
)


def run(
    invocation: Invocation,
    name: QueueName,
    command: Annotated[
        list[str] | None, Argument("COMMAND", "what to run, with its arguments; {} is a file with the message")
    ] = None,
    concurrency: Annotated[
        int, option("--concurrency", help="so many commands at once; default 1", metavar="N", minimum=1)
    ] = 1,
    batch: Annotated[
        int,
        option("--batch", help="so many messages for one command, one a line; default 1", metavar="N", minimum=1),
    ] = 1,
    until_empty: Annotated[bool, option("--until-empty", help="end when nothing is pending")] = False,
    backoff: Annotated[
        str, option("--backoff", help="pause after a first failure, doubled after each; default 1s", metavar="TIME")
    ] = "1s",
    dead_letter: Annotated[
        str | None,
        option("--dead-letter", help="publish dead messages to this topic", metavar="TOPIC", complete="published"),
    ] = None,
    worker: Annotated[
        str | None, option("--worker", help="the worker's name; default its process id", metavar="NAME")
    ] = None,
    message_type: MessageType = None,
    summary: Summary = None,
) -> int:
    """Run COMMAND for each message of a queue, with the message on its standard input, or in the file whose name takes
    the place of {}.

    Exit status 0 acknowledges the message; any other cancels it, and it is delivered again after --backoff. The lease
    is renewed while the command runs. With --batch a command gets several messages, one a line, which are acknowledged
    or cancelled together; MaxPerSubscriptionBacklog of the queue, 1 unless configured, is the most that it gets. A
    message with line feeds in it takes several lines. The environment has SOWCTL_QUEUE, SOWCTL_COUNT, the number of
    messages, SOWCTL_BOOKMARK and SOWCTL_DELIVERIES of the first one, and SOWCTL_BARRIER where it is a barrier.

    On SIGTERM and Ctrl-C the commands are stopped and their messages given back. Several workers, on several
    machines that share the files of one host, may work on a queue. Ends with status 1 where a message died, or where a
    command failed and the queue delivers at most once, so that its message is gone. A dead message that the topic of
    --dead-letter refuses stays in the queue.
    """
    if not command:
        raise UsageError(
            "SOW-QUE-012", "there is no command to run", hint="write it last: sowctl queue run NAME -- COMMAND"
        )
    import os

    from sowctl.cli.io.reporting import show_report
    from sowctl.engine.queues.worker import Worker, WorkOptions
    from sowctl.engine.verbs.queue import open_queue
    from sowctl.values.units import parse_seconds

    try:
        pause = parse_seconds(backoff)
    except ValueError as error:
        raise UsageError("SOW-CLI-006", f"--backoff: {error}", hint="such as 0, 500ms, 10s") from None
    with invocation.open_instance() as instance, open_queue(instance, name, message_type) as queue:
        options = WorkOptions(
            command,
            worker or f"worker-{os.getpid()}",
            concurrency,
            batch,
            until_empty,
            pause,
            dict(invocation.environ),
            None if dead_letter is None else _publisher(instance, queue, dead_letter),
        )
        if batch > (most := queue.queue.max_per_subscription_backlog):
            invocation.note(f"--batch {batch:,}: MaxPerSubscriptionBacklog lets a command have {most:,} at most")
        report = Worker(queue, options).run()
    if summary == "json":
        show_report(invocation, report, summary)
    else:
        counted = [(getattr(report, field), field) for field in report.__struct_fields__]
        invocation.note(", ".join(f"{count:,} {field}" for count, field in counted if count) or "nothing was pending")
    return 1 if report.dead or report.failed else 0


def _publisher(instance: Instance, queue: OpenQueue, topic: str) -> Callable[[list[bytes]], None]:
    from sowctl.engine.options import PublishOptions
    from sowctl.engine.topics.targets import find_publishable
    from sowctl.engine.verbs.publish import publish
    from sowctl.engine.writing.batching import Listed

    letters = find_publishable(instance, topic)
    if queue.takes(letters.label, letters.message_type):
        raise UsageError(
            "SOW-QUE-016",
            f"the queue takes messages of {letters.label!r}: its dead messages would come back for ever",
            hint="name a topic of its own, which UnderlyingTopic does not match",
        )

    def bury(payloads: list[bytes]) -> None:
        publish(instance, topic, [("dead messages", Listed(payloads))], PublishOptions())

    return bury

"""What ``sowctl subscribe`` and ``sowctl query --follow`` do while they run: events out, control lines in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sowctl.cli.context import Invocation
from sowctl.cli.streams import is_terminal
from sowctl.engine.following.events import Delivery, Sign
from sowctl.engine.options import SubscribeOptions
from sowctl.engine.topics.targets import followed
from sowctl.engine.verbs.subscribe import subscribe
from sowctl.errors import SowError, UsageError
from sowctl.output.events import EventLines

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.verbs.subscribe import Subscription


class Printing:
    """One run. ``controlled``: lines of standard input say how it goes on."""

    def __init__(self, invocation: Invocation, instance: Instance, *, data_only: bool, controlled: bool) -> None:
        streams = invocation.streams
        self._invocation = invocation
        self._instance = instance
        self._out = streams.stdout
        self._lines = EventLines(data_only=data_only, terminal=is_terminal(streams.stdout))
        self._controlled = controlled
        self._rest = b""

    def run(self, topics: Sequence[TopicConfig], options: SubscribeOptions) -> None:
        """Print events until the subscription ends."""
        streams = self._invocation.streams
        # Of a process of its own the output may be a pipe, whose reader may go away while nothing is written.
        own = self._invocation.own_process
        output = self._out.fileno() if own else None
        inputs = [streams.stdin.fileno()] if self._controlled and own else []
        with subscribe(self._instance, topics, options, inputs=inputs, output=output) as subscription:
            if self._controlled and not own:
                self._write(subscription.ready())
                self._told(subscription, streams.stdin.read())
            self._write(subscription.ready())
            # What the records were read from is not needed any more; a store that is replaced can go.
            self._instance.close()
            while True:
                self._write(subscription.ready())
                if subscription.finished:
                    return
                for number in subscription.wait():
                    data = os.read(number, 1 << 16)
                    if not data:
                        # Nobody tells anything any more; the subscription goes on as it is.
                        subscription.forget_input(number)
                    self._told(subscription, data if data else b"\n")

    def _write(self, deliveries: Iterable[Delivery]) -> None:
        lines = self._lines
        for delivery in deliveries:
            self._out.write(lines.sign(delivery) if isinstance(delivery, Sign) else lines.events(delivery))
        # Before every wait: what there is has arrived before the next message comes.
        self._out.flush()

    def _told(self, subscription: Subscription, data: bytes) -> None:
        """Do what complete lines say; one that cannot be done is told, and the subscription goes on."""
        from sowctl.engine.following.control import parse_control

        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in filter(bytes.strip, lines):
            try:
                self._write(subscription.control(parse_control(line), self._topics))
            except SowError as error:
                if error.exit_status != 2:
                    raise
                self._invocation.warn(error.message, code=error.code, place=error.place, hint=error.hint)

    def _topics(self, target: str) -> Sequence[TopicConfig]:
        return followed(self._instance, target)


def follow_query(
    invocation: Invocation,
    target: str,
    message_type: str | None,
    asked: QueryOptions,
    shaping: Sequence[object],
    *,
    literal: bool,
) -> int:
    """``query --follow``: the records that match, then the messages behind them, as payloads.

    Raises UsageError ``SOW-CLI-097`` for options that are among those ``shaping`` the output otherwise.
    """
    if any(one not in (None, False, "ndjson") for one in shaping):
        hint = "with --follow go a filter, --order-by, --top-n, --skip-n, --select; else use subscribe"
        raise UsageError("SOW-CLI-097", "--follow prints payloads, line by line, and takes no other shape", hint=hint)
    wanted = SubscribeOptions(
        filter=asked.filter, order_by=asked.order_by, top_n=asked.top_n, skip_n=asked.skip_n, select=asked.select
    )
    with invocation.open_instance(target) as instance:
        topics = followed(instance, target, message_type, literal=literal)
        Printing(invocation, instance, data_only=True, controlled=False).run(topics, wanted)
    return 0

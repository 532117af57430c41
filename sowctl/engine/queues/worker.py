"""A worker: a process that runs a command for each message and acknowledges what the command processed.

Exit status 0 acknowledges, any other cancels with a back-off that doubles. Leases are renewed while commands run. When
the worker is told to end it stops its commands and gives back what it has; when it is killed, its commands still hold
the lock of its file, so that its messages return when they, too, have ended. Ruled by ``behaviour`` 5.4, 11.64-11.66.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from shutil import which
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from sowctl.breaks import unbroken
from sowctl.described import DescribedStruct
from sowctl.engine.following.waking import Waker
from sowctl.engine.queues.figures import depth_of
from sowctl.engine.queues.queue import handle_of
from sowctl.errors import InputError, LockedError, MissingError, SowError
from sowctl.remote.place import on_disk

if TYPE_CHECKING:
    from sowctl.engine.queues.figures import Depth
    from sowctl.engine.queues.handles import MessageHandle, Outcome
    from sowctl.engine.queues.queue import OpenQueue, QueueMessage

PLACEHOLDER = "{}"
"""What stands for the name of a file with the message in a command's arguments."""
LONGEST_BACKOFF = 300.0
IDLE = 5.0
"""Seconds without anything to do until a worker says what it waits for."""
GRACE = 5.0
"""Seconds that commands have to end when the worker is told to."""
_TICK = 0.02
"""Seconds between two looks at commands where the system does not announce their end."""


class WorkOptions(DescribedStruct, frozen=True):
    """What a worker is asked for. ``batch`` messages at most go to one command; ``backoff`` seconds before a message
    that was cancelled once is delivered again. ``bury`` is given the payloads of dead messages and publishes them.
    ``on_round`` is told after each round of work what was done until then."""

    command: Sequence[str]
    name: str
    concurrency: int = 1
    batch: int = 1
    until_empty: bool = False
    backoff: float = 1.0
    environment: Mapping[str, str] = {}
    bury: Callable[[list[bytes]], None] | None = None
    on_round: Callable[[WorkReport], None] | None = None


class WorkReport(Struct):
    """What a worker did. ``lost``: the lease was over when the command ended; ``dead``: delivered no more; ``failed``:
    the command failed, and as the queue delivers at most once the message is gone."""

    delivered: int = 0
    acknowledged: int = 0
    cancelled: int = 0
    lost: int = 0
    dead: int = 0
    buried: int = 0
    failed: int = 0


class _Job:
    """A command that runs, and the messages that it got."""

    def __init__(self, messages: list[QueueMessage], process: subprocess.Popen[bytes], files: list[Any]) -> None:
        self.messages = messages
        self.process = process
        self.files = files
        self.descriptor = _descriptor(process.pid)
        self.renewed = time.monotonic()

    @property
    def handles(self) -> list[MessageHandle]:
        """The leases that this command works under; barriers have none."""
        return [handle_of(message) for message in self.messages if message.token]

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        for file in self.files:
            file.close()


class Worker:
    """Runs commands for messages until it is told to end, or with ``until_empty`` until nothing is pending."""

    def __init__(self, queue: OpenQueue, options: WorkOptions) -> None:
        self.queue = queue
        self.options = options
        self.report = WorkReport()
        self._jobs: list[_Job] = []
        self._ended: list[_Job] = []
        self._leased: list[QueueMessage] = []
        self._unburied: set[int] = set()
        self._idle: float | None = None
        """Since when there is nothing to do, though messages are pending."""
        self._told = False
        self._number = 0
        self._epoll: select.epoll | None = None
        period = queue.queue.lease_period_us
        # A third of the lease leaves two more attempts.
        self._renew_every = None if period is None else period / 3e6
        self._final = queue.queue.semantics == "at-most-once"

    def run(self) -> WorkReport:
        """Work. Raises MissingError ``SOW-QUE-013`` where the command cannot be started, and what changes raise."""
        options, queue = self.options, self.queue
        # Asked before anything is leased: with at-most-once a message that was handed out is gone.
        program = options.command[0]
        if PLACEHOLDER not in program and which(program, path=options.environment.get("PATH")) is None:
            raise _cannot_start(program, "the program does not exist")
        directory = queue.turns.writer.journal.directory
        room = options.concurrency * min(options.batch, queue.queue.max_per_subscription_backlog)
        self._number = queue.enter(options.name, options.concurrency, room)
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        waker = Waker([on_disk(directory)], [self._epoll.fileno()] if self._epoll is not None else [])
        try:
            while True:
                try:
                    ended = self._step()
                    if options.on_round is not None:
                        options.on_round(self.report)
                    if ended:
                        return self.report
                except LockedError as problem:
                    # A process that was stopped may hold the lock; messages of ours are safe until their leases end.
                    queue.instance.notify(f"{problem.message}; retrying")
                waker.wait(self._pause())
        finally:
            waker.close()
            self._end()
            if self._epoll is not None:
                self._epoll.close()

    def _step(self) -> bool:
        """One round; whether all is done."""
        self._renew()
        self._reap()
        if self.options.bury is not None:
            self._bury()
        free = self.options.concurrency - len(self._jobs)
        if free > 0:
            each = min(self.options.batch, self.queue.queue.max_per_subscription_backlog)
            # A signal that ends the worker comes before or after: what is leased is known to be untouched then.
            with unbroken():
                self._leased += self.queue.lease_to(self._number, free * each)
            self.report.delivered += len(self._leased)
            while self._leased:
                # Spread over the free slots, rather than one slot full and the others idle.
                share = max(1, min(each, -(-len(self._leased) // max(1, free))))
                part = self._leased[:share]
                # And a command that was started is known to run, and is stopped before its messages go back.
                with unbroken():
                    self._start(part)
                    del self._leased[:share]
                free -= 1
        if not self.options.until_empty or self._jobs or self._ended:
            self._idle = None
            return False
        depth = depth_of(self.queue)
        self._say_what_is_waited_for(depth)
        return depth.pending == 0

    def _say_what_is_waited_for(self, depth: Depth) -> None:
        """Tell once what keeps an idle worker from ending: others may have leases without an end."""
        now = time.monotonic()
        self._idle = now if self._idle is None else self._idle
        if depth.pending and not self._told and now - self._idle >= IDLE:
            self._told = True
            parts = {"leased to others": depth.leased, "delayed": depth.delayed, "blocked": depth.blocked}
            words = ", ".join(f"{count:,} {word}" for word, count in parts.items() if count)
            self.queue.instance.notify(f"waiting for messages of queue {self.queue.queue.name!r}: {words}")

    def _start(self, messages: list[QueueMessage]) -> None:
        payload = messages[0].payload
        if self.options.batch > 1:
            payload = b"".join(message.payload + b"\n" for message in messages)
        files: list[Any] = []
        arguments = list(self.options.command)
        given: BinaryIO | int = subprocess.DEVNULL
        if any(PLACEHOLDER in argument for argument in arguments):
            named = self.queue.turns.presence.message_file(self._number, payload)
            files.append(named)
            arguments = [argument.replace(PLACEHOLDER, named.name) for argument in arguments]
        else:
            # A file and no pipe: a command that does not read its input must not stop the worker.
            spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the job
            spool.write(payload)
            spool.seek(0)
            files.append(spool)
            given = spool
        first = messages[0]
        environment = dict(self.options.environment) | {
            "SOWCTL_QUEUE": self.queue.queue.name,
            "SOWCTL_BOOKMARK": first.bookmark,
            "SOWCTL_DELIVERIES": str(first.deliveries),
            "SOWCTL_COUNT": str(len(messages)),
        }
        if first.barrier:
            environment["SOWCTL_BARRIER"] = "1"
        try:
            process = subprocess.Popen(
                arguments,
                stdin=given,
                env=environment,
                process_group=0,
                # While the command runs, the worker counts as alive: nobody else gets its messages.
                pass_fds=(self.queue.turns.presence.descriptor(self._number),),
            )
        except OSError as problem:
            for file in files:
                file.close()
            raise _cannot_start(arguments[0], problem.strerror) from problem
        job = _Job(messages, process, files)
        self._jobs.append(job)
        if self._epoll is not None and job.descriptor >= 0:
            self._epoll.register(job.descriptor, select.EPOLLIN)

    def _reap(self) -> None:
        """Note which commands have ended, and acknowledge or cancel what they had.

        Where that cannot be done now, as another process has the journal, it is done in a later round; their leases
        are renewed until then.
        """
        ended = [job for job in self._jobs if job.process.poll() is not None]
        for job in ended:
            if self._epoll is not None and job.descriptor >= 0:
                self._epoll.unregister(job.descriptor)
            job.close()
        self._jobs = [job for job in self._jobs if job not in ended]
        self._ended += ended
        if self._final:
            for job in self._ended:
                count = sum(not message.barrier for message in job.messages)
                if job.process.returncode == 0:
                    self.report.acknowledged += count
                else:
                    self.report.failed += count
            self._ended = []
            return
        good = [job for job in self._ended if job.process.returncode == 0]
        if good:
            self._tally(self.queue.acknowledge([handle for job in good for handle in job.handles]))
            self._ended = [job for job in self._ended if job not in good]
        if self._ended:
            handles = [
                handle_of(message, round(self._backoff(message.cancels) * 1e6))
                for job in self._ended
                for message in job.messages
                if message.token
            ]
            self._tally(self.queue.cancel(handles), cancelled=True)
            self._ended = []

    def _backoff(self, cancels: int) -> float:
        return min(self.options.backoff * 2.0 ** min(cancels, 30), LONGEST_BACKOFF)

    def _tally(self, outcomes: Sequence[Outcome], *, cancelled: bool = False) -> None:
        for outcome in outcomes:
            if outcome == "done":
                if cancelled:
                    self.report.cancelled += 1
                else:
                    self.report.acknowledged += 1
            elif outcome in ("max_cancels", "max_deliveries"):
                self.report.dead += 1
            else:
                self.report.lost += 1
        lost = sum(outcome in ("stale", "unknown", "not leased") for outcome in outcomes)
        if lost:
            self.queue.instance.notify(f"the leases of {lost} messages expired before their command ended")

    def _renew(self) -> None:
        if self._renew_every is None or self._final:
            return
        now = time.monotonic()
        late = [job for job in self._jobs + self._ended if now - job.renewed >= self._renew_every]
        handles = [handle for job in late for handle in job.handles]
        if handles:
            self.queue.renew(handles)
        for job in late:
            job.renewed = now

    def _bury(self) -> None:
        """Publish dead messages elsewhere and forget them; of several workers one does it at a time."""
        queue = self.queue
        assert self.options.bury is not None
        if depth_of(queue).dead > len(self._unburied) and queue.turns.presence.alone():
            try:
                for message in queue.bodies_of(one for one in queue.dead() if one.txid not in self._unburied):
                    self._bury_one(message)
            finally:
                queue.turns.presence.leave(0)

    def _bury_one(self, message: QueueMessage) -> None:
        assert self.options.bury is not None
        try:
            self.options.bury([message.payload])
        except InputError as problem:
            # It stays where it is, for somebody to look at; the others go on.
            self._unburied.add(message.txid)
            self.queue.instance.notify(f"dead letter {message.bookmark} stays in the queue: {problem.message}")
        else:
            self.report.buried += self.queue.bury([message.txid])

    def _pause(self) -> float | None:
        """Seconds until something of our own is to be done; None for nothing."""
        if self._jobs and (self._epoll is None or any(job.descriptor < 0 for job in self._jobs)):
            return _TICK
        pauses = []
        if self._renew_every is not None and self._jobs:
            now = time.monotonic()
            pauses.append(max(0.0, min(job.renewed + self._renew_every - now for job in self._jobs)))
        if self.queue.next_due and len(self._jobs) < self.options.concurrency:
            # A message that was cancelled comes back when its back-off is over, and not with the next look.
            pauses.append(max(_TICK, (self.queue.next_due - self.queue.instance.now) / 1e6))
        return min(pauses, default=None)

    def _end(self) -> None:
        """Stop the commands and give back what is leased, as far as disk and locks let it: the commands in any case."""
        with self._telling():
            self._reap()
        for job in self._jobs:
            with suppress(ProcessLookupError):
                os.killpg(job.process.pid, signal.SIGTERM)
        until = time.monotonic() + GRACE
        for job in self._jobs:
            try:
                job.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(job.process.pid, signal.SIGKILL)
                job.process.wait()
            job.close()
        self._jobs = []
        untouched = [handle_of(message) for message in self._leased if message.token]
        self._leased = []
        with self._telling():
            if untouched and not self._final:
                self.queue.cancel(untouched, started=False)
        with self._telling():
            self.queue.leave(self._number)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except SowError as problem:
            # They return with the lock of this worker's file, which ends with the process.
            self.queue.instance.notify(f"{problem.message}; leases are returned when this process ends")


def _cannot_start(program: str, why: str | None) -> MissingError:
    return MissingError(
        "SOW-QUE-013",
        f"cannot start the command: {why}",
        place=program,
        hint="no message was processed",
    )


def _descriptor(pid: int) -> int:
    """A descriptor that can be read when the process has ended; -1 where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1

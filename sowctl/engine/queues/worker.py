"""A worker: a process that runs a command for each message and acknowledges the messages that it processed.

Exit status 0 acknowledges, any other cancels with exponential back-off. Leases are renewed while commands run. A worker
that is asked to end stops its commands and returns its leases; if it is killed, its commands still hold the lock of its
file, so its messages return when they have ended, too. Specified in ``behaviour`` 5.4, 11.64-11.66.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from shutil import which
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from msgspec import Struct

from sowctl.engine.queues.handles import CommandFailure
from sowctl.engine.queues.queue import build_handle
from sowctl.engine.queues.reports import compute_depth
from sowctl.engine.subscriptions.waker import Waker
from sowctl.errors import InputError, LockedError, MissingError, SowError
from sowctl.interrupts import without_interrupts
from sowctl.remote.place import require_local
from sowctl.structs import DescribedStruct
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.engine.queues.handles import MessageHandle, Outcome
    from sowctl.engine.queues.queue import OpenQueue, QueueMessage
    from sowctl.engine.queues.reports import Depth

FILE_PLACEHOLDER = "{}"
"""The placeholder in a command's arguments for the name of a file with the message."""
MAX_BACKOFF_SECONDS = 300.0
STOP_GRACE_SECONDS = 5.0
"""Seconds that commands have to end when the worker ends."""
MAX_ERROR_LINES = 10
MAX_ERROR_CHARACTERS = 2000
"""Lines and characters of a command's standard error that are kept with a dead message."""
_ERROR_END_SECONDS = 0.5
"""Seconds to wait for the end of a command's standard error after the command has ended."""
_STANDARD_ERROR = 2
_POLL_INTERVAL_SECONDS = 0.02
"""Seconds between two checks of commands if the system does not announce their end."""


class WorkerLimits(Struct):
    """Times of a worker; tests set shorter ones."""

    idle_notice_seconds: float = 5.0
    """Idle seconds after which a worker reports what it waits for."""


WORKER_LIMITS = WorkerLimits()


class WorkOptions(DescribedStruct, frozen=True):
    """The options of a worker. ``batch``: maximum number of messages per command; ``backoff``: seconds before a message
    that was cancelled once is delivered again. ``bury`` is called with the payloads of dead messages and publishes
    them. ``on_round`` is called after each round with the report so far. ``output_to_error``: the standard output of
    commands goes to standard error."""

    command: Sequence[str]
    name: str
    concurrency: int = 1
    batch: int = 1
    until_empty: bool = False
    backoff: float = 1.0
    environment: Mapping[str, str] = {}
    bury: Callable[[list[bytes]], None] | None = None
    on_round: Callable[[WorkReport], None] | None = None
    output_to_error: bool = False


class WorkReport(Struct):
    """The counters of a worker. ``returned``: the worker ended before the command did; ``lost``: the lease had expired
    when the command ended; ``dead``: not delivered again; ``failed``: the command failed or was stopped, and the
    message is lost because the queue delivers at most once. ``buried``: dead messages that were published elsewhere."""

    delivered: int = 0
    acknowledged: int = 0
    cancelled: int = 0
    lost: int = 0
    dead: int = 0
    buried: int = 0
    failed: int = 0
    returned: int = 0


class _ErrorReader(threading.Thread):
    """Forwards the standard error of a command, and remembers its end.

    A thread, because a command must not wait for a worker that waits for a lock. It ends with the last process that has
    the pipe open, which may outlive the command.
    """

    def __init__(self, pipe: BinaryIO, target: int) -> None:
        super().__init__(name="standard error of a command", daemon=True)
        self._pipe = pipe
        self._target = target
        self._end = b""

    def run(self) -> None:
        """Read until all writers have closed the pipe."""
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), 1 << 16):
                # A character has at most four bytes.
                self._end = (self._end + chunk)[-4 * MAX_ERROR_CHARACTERS :]
                with suppress(OSError):
                    os.write(self._target, chunk)

    def read_last_lines(self) -> str:
        """Return the last lines, after the command has ended."""
        self.join(_ERROR_END_SECONDS)
        text = self._end.decode("utf-8", "replace").rstrip()
        return "\n".join(text.splitlines()[-MAX_ERROR_LINES:])[-MAX_ERROR_CHARACTERS:]


class _CommandRun:
    """A running command and its messages; ``errors`` reads its standard error, if it is captured."""

    def __init__(
        self,
        messages: list[QueueMessage],
        process: subprocess.Popen[bytes],
        files: list[Any],
        errors: _ErrorReader | None = None,
    ) -> None:
        self.messages = messages
        self.process = process
        self.files = files
        self.errors = errors
        self.descriptor = _open_descriptor(process.pid)
        self.renewed = time.monotonic()

    @property
    def handles(self) -> list[MessageHandle]:
        """The leases of this command's messages; barriers have none."""
        return [build_handle(message) for message in self.messages if message.token]

    def describe_failure(self) -> CommandFailure:
        """Return why the command, which has ended, did not process its messages."""
        status = self.process.returncode
        # Signals are numbered as by a shell.
        status = status if status >= 0 else 128 - status
        return CommandFailure(status, "" if self.errors is None else self.errors.read_last_lines())

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        for file in self.files:
            file.close()


class Worker:
    """Runs commands for messages until it is asked to end, or with ``until_empty`` until no message is pending."""

    def __init__(self, queue: OpenQueue, options: WorkOptions) -> None:
        self.queue = queue
        self.options = options
        self.report = WorkReport()
        self._jobs: list[_CommandRun] = []
        self._ended: list[_CommandRun] = []
        self._leased: list[QueueMessage] = []
        self._unburied: set[int] = set()
        self._readers: list[_ErrorReader] = []
        self._idle: float | None = None
        """Since when the worker is idle although messages are pending."""
        self._told = False
        self._number = 0
        self._epoll: select.epoll | None = None
        period = queue.queue.lease_period_us
        # Renewing after a third of the lease leaves two more attempts.
        self._renew_every = None if period is None else period / 3e6
        self._final = queue.queue.semantics == "at-most-once"

    def run(self) -> WorkReport:
        """Run commands until the worker ends. Raises MissingError ``SOW-QUE-013`` if the command cannot be started, and
        what changes raise."""
        options, queue = self.options, self.queue
        # Checked before anything is leased: with at-most-once a leased message would be lost.
        program = options.command[0]
        if FILE_PLACEHOLDER not in program and which(program, path=options.environment.get("PATH")) is None:
            raise _make_start_error(program, "the program does not exist")
        directory = queue.turns.writer.journal.directory
        room = options.concurrency * min(options.batch, queue.queue.max_per_subscription_backlog)
        self._number = queue.register_worker(options.name, options.concurrency, room)
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        waker = Waker([require_local(directory)], [self._epoll.fileno()] if self._epoll is not None else [])
        try:
            while True:
                try:
                    ended = self._run_round()
                    if options.on_round is not None:
                        options.on_round(self.report)
                    if ended:
                        return self.report
                except LockedError as problem:
                    # A suspended process may hold the lock; our messages are safe until their leases end.
                    queue.instance.notify(f"{problem.message}; retrying")
                waker.wait(self._compute_pause())
        finally:
            waker.close()
            self._stop_commands()
            # Output of commands is forwarded before this process may end.
            until = time.monotonic() + _ERROR_END_SECONDS
            for reader in self._readers:
                reader.join(max(0.0, until - time.monotonic()))
            if self._epoll is not None:
                self._epoll.close()

    def _run_round(self) -> bool:
        """Run one round; return whether all is done."""
        # Renewed first, so that no lease expires while the rest of the round runs.
        self._renew_leases()
        self._settle_ended_commands()
        if self.options.bury is not None:
            self._bury_dead()
        free = self.options.concurrency - len(self._jobs)
        if free > 0:
            each = min(self.options.batch, self.queue.queue.max_per_subscription_backlog)
            # A signal that ends the worker is handled before or after: all leased messages are then known to be
            # unprocessed.
            with without_interrupts():
                self._leased += self.queue.lease_for_worker(self._number, free * each)
                self.report.delivered += len(self._leased)
            while self._leased:
                # Spread over the free slots, rather than one slot full and the others idle.
                share = max(1, min(each, -(-len(self._leased) // max(1, free))))
                part = self._leased[:share]
                # A started command is recorded before a signal is handled, so it is stopped before its messages are
                # returned.
                with without_interrupts():
                    self._start_command(part)
                    del self._leased[:share]
                free -= 1
        if not self.options.until_empty or self._jobs or self._ended:
            self._idle = None
            return False
        depth = compute_depth(self.queue)
        self._notify_waiting(depth)
        return depth.pending == 0

    def _notify_waiting(self, depth: Depth) -> None:
        """Report once why an idle worker does not end: others may have leases without an end."""
        now = time.monotonic()
        self._idle = now if self._idle is None else self._idle
        if depth.pending and not self._told and now - self._idle >= WORKER_LIMITS.idle_notice_seconds:
            self._told = True
            parts = {"leased to others": depth.leased, "delayed": depth.delayed, "blocked": depth.blocked}
            words = ", ".join(f"{count:,} {word}" for word, count in parts.items() if count)
            self.queue.instance.notify(f"waiting for messages of queue {self.queue.queue.name!r}: {words}")

    def _start_command(self, messages: list[QueueMessage]) -> None:
        payload = messages[0].payload
        if self.options.batch > 1:
            payload = b"".join(message.payload + b"\n" for message in messages)
        files: list[Any] = []
        arguments = list(self.options.command)
        given: BinaryIO | int = subprocess.DEVNULL
        if any(FILE_PLACEHOLDER in argument for argument in arguments):
            named = self.queue.turns.presence.create_message_file(self._number, payload)
            files.append(named)
            arguments = [argument.replace(FILE_PLACEHOLDER, named.name) for argument in arguments]
        else:
            # A file and no pipe: a command that does not read its input must not block the worker.
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
                stdout=_STANDARD_ERROR if self.options.output_to_error else None,
                # With at-most-once there are no dead messages to store it with.
                stderr=None if self._final else subprocess.PIPE,
                env=environment,
                # A separate process group, so that killpg also reaches processes started by the command.
                process_group=0,
                # While the command runs, the worker counts as alive: its messages are delivered to no other worker.
                pass_fds=(self.queue.turns.presence.get_lock_descriptor(self._number),),
            )
        except OSError as problem:
            for file in files:
                file.close()
            raise _make_start_error(arguments[0], problem.strerror) from problem
        errors = None
        if process.stderr is not None:
            errors = _ErrorReader(cast("BinaryIO", process.stderr), _STANDARD_ERROR)
            errors.start()
            self._readers = [one for one in self._readers if one.is_alive()] + [errors]
        job = _CommandRun(messages, process, files, errors)
        self._jobs.append(job)
        if self._epoll is not None and job.descriptor >= 0:
            self._epoll.register(job.descriptor, select.EPOLLIN)

    def _settle_ended_commands(self) -> None:
        """Collect the commands that have ended, and acknowledge or cancel their messages.

        If another process holds the journal, a later round does this; the leases are renewed until then.
        """
        # A signal between a change and its count would settle these leases twice, the second time as expired.
        with without_interrupts():
            self._collect_ended_commands()
            self._end_leases()

    def _collect_ended_commands(self) -> None:
        ended = [job for job in self._jobs if job.process.poll() is not None]
        for job in ended:
            if self._epoll is not None and job.descriptor >= 0:
                self._epoll.unregister(job.descriptor)
            job.close()
        self._jobs = [job for job in self._jobs if job not in ended]
        self._ended += ended

    def _end_leases(self) -> None:
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
            self._count_outcomes(self.queue.acknowledge([handle for job in good for handle in job.handles]))
            self._ended = [job for job in self._ended if job not in good]
        if self._ended:
            handles = [
                build_handle(message, round(self._compute_backoff(message.cancels) * 1e6), failure)
                for job, failure in [(job, job.describe_failure()) for job in self._ended]
                for message in job.messages
                if message.token
            ]
            self._count_outcomes(self.queue.cancel(handles), cancelled=True)
            self._ended = []

    def _compute_backoff(self, cancels: int) -> float:
        return min(self.options.backoff * 2.0 ** min(cancels, 30), MAX_BACKOFF_SECONDS)

    def _count_outcomes(self, outcomes: Sequence[Outcome], *, cancelled: bool = False) -> None:
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
            self.queue.instance.notify(f"{format_count(lost, 'lease')} expired before the command ended")

    def _renew_leases(self) -> None:
        if self._renew_every is None or self._final:
            return
        now = time.monotonic()
        late = [job for job in self._jobs + self._ended if now - job.renewed >= self._renew_every]
        handles = [handle for job in late for handle in job.handles]
        if handles:
            self.queue.renew(handles)
        for job in late:
            # Not reached if renewing raises LockedError: the leases are renewed in the next round.
            job.renewed = now

    def _bury_dead(self) -> None:
        """Publish dead messages elsewhere and remove them; only one worker at a time does this."""
        queue = self.queue
        assert self.options.bury is not None
        if compute_depth(queue).dead > len(self._unburied) and queue.turns.presence.try_exclusive_role():
            try:
                for message in queue.read_messages(one for one in queue.list_dead() if one.txid not in self._unburied):
                    self._bury_message(message)
            finally:
                queue.turns.presence.unregister_worker(0)

    def _bury_message(self, message: QueueMessage) -> None:
        assert self.options.bury is not None
        try:
            # Published before it is removed: a crash in between publishes it twice instead of losing it.
            self.options.bury([message.payload])
        except InputError as problem:
            # It stays in the queue for inspection; the others are processed.
            self._unburied.add(message.txid)
            self.queue.instance.notify(f"dead letter {message.bookmark} stays in the queue: {problem.message}")
        else:
            with without_interrupts():
                self.report.buried += self.queue.bury([message.txid])
            # In the other topic nothing else explains why the message is there.
            self.queue.instance.notify(describe_dead(message))

    def _compute_pause(self) -> float | None:
        """Return the seconds until the worker has something to do; None for nothing."""
        if self._jobs and (self._epoll is None or any(job.descriptor < 0 for job in self._jobs)):
            return _POLL_INTERVAL_SECONDS
        pauses = []
        if self._renew_every is not None and self._jobs:
            now = time.monotonic()
            pauses.append(max(0.0, min(job.renewed + self._renew_every - now for job in self._jobs)))
        if self.queue.next_due and len(self._jobs) < self.options.concurrency:
            # A cancelled message is delivered again when its back-off ends, not at the next poll.
            pauses.append(max(_POLL_INTERVAL_SECONDS, (self.queue.next_due - self.queue.instance.now) / 1e6))
        return min(pauses, default=None)

    def _stop_commands(self) -> None:
        """Stop the commands, and return leases as far as disk and locks permit; commands are stopped in any case."""
        with self._notify_errors():
            self._settle_ended_commands()
        for job in self._jobs:
            with suppress(ProcessLookupError):
                os.killpg(job.process.pid, signal.SIGTERM)
        until = time.monotonic() + STOP_GRACE_SECONDS
        for job in self._jobs:
            try:
                job.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(job.process.pid, signal.SIGKILL)
                job.process.wait()
            job.close()
        if self._final:
            # They left the queue when they were delivered.
            stopped = [*self._leased, *(message for job in self._jobs for message in job.messages)]
            self.report.failed += sum(not message.barrier for message in stopped)
        self._jobs = []
        untouched = [build_handle(message) for message in self._leased if message.token]
        self._leased = []
        with self._notify_errors(), without_interrupts():
            if untouched and not self._final:
                self._count_returned(self.queue.cancel(untouched, started=False))
        with self._notify_errors(), without_interrupts():
            self._count_returned(self.queue.unregister_worker(self._number))

    def _count_returned(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if outcome == "done":
                self.report.returned += 1
            elif outcome in ("max_cancels", "max_deliveries"):
                self.report.dead += 1
            else:
                self.report.lost += 1

    @contextmanager
    def _notify_errors(self) -> Iterator[None]:
        try:
            yield
        except SowError as problem:
            # The leases return when the lock of this worker's file is released, at the end of the process.
            self.queue.instance.notify(f"{problem.message}; leases are returned when this process ends")


def describe_dead(message: QueueMessage) -> str:
    """Return one line about a dead message: reason, deliveries, last holder, and the end of its command."""
    deliveries = format_count(message.deliveries, "delivery", "deliveries")
    parts = [f"dead letter {message.bookmark}: {message.reason}, {deliveries}"]
    if message.holder:
        parts.append(f"last with {message.holder}")
    if message.exit_status is not None:
        parts.append(f"exit status {message.exit_status}")
    if message.stderr:
        parts.append(message.stderr.splitlines()[-1])
    return ", ".join(parts)


def _make_start_error(program: str, why: str | None) -> MissingError:
    return MissingError(
        "SOW-QUE-013",
        f"cannot start the command: {why}",
        place=program,
        hint="no message was processed",
    )


def _open_descriptor(pid: int) -> int:
    """Return a descriptor that is readable when the process has ended; -1 without system support."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1

"""Check a store completely, protected from the effects of damaged pages on LMDB (``sow-store(5)``, "What damage can
cost").

:mod:`sowctl.store.examine` reads the store in a separate process; its death by SIGBUS or SIGABRT is another finding. An
incomplete check reports this: it never passes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import asdict

from sowctl.errors import LockedError, SowError, StorageError
from sowctl.findings import Finding, Level, Place
from sowctl.seam import SEAM, Seam
from sowctl.store.codec import REBUILD_HINT
from sowctl.store.lmdberrors import missing_store_error, translate_errors
from sowctl.store.opening.access import StoreFiles, can_lock
from sowctl.store.opening.unlocked_watch import StateWatch

_CHECK_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from sowctl.store.examine import main; main(*sys.argv[2:])"
_PARTIAL_CHECK_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from sowctl.store.repair.partial import main; main(*sys.argv[2:])"
)


class CheckScope(Struct, frozen=True):
    """The data that a check reads: a ``share`` (0 to 1), ``part`` n of t, or as much as possible in ``seconds``; none
    without these. ``now`` is recorded as the time of the data read (microseconds).
    """

    now: int
    share: float | None = None
    part: tuple[int, int] | None = None
    seconds: float | None = None


class StoreCoverage(Struct, frozen=True):
    """The amount of data read by a check: entries, bytes of keys and values, and the parts that it could not verify.

    ``status``: the exit status of an error other than damage that prevented reading, otherwise 0. ``unlocked``: whether
    it read without locks. For a partial check: ``pages`` of its structure, the ``share`` of data that was read, the
    share that was ``never`` read by a partial check, the ``oldest`` time at which the rest was read (microseconds), and
    the ``record`` to store about it.
    """

    records: int = 0
    versions: int = 0
    expiry_entries: int = 0
    bytes_read: int = 0
    not_verified: tuple[str, ...] = ()
    status: int = 0
    unlocked: bool = False
    pages: int = 0
    share: float = 1.0
    never: float = 0.0
    oldest: int = 0
    record: tuple[tuple[int, int], ...] = ()

    @property
    def is_complete(self) -> bool:
        """True if everything visible to readers was verified."""
        return not self.not_verified


class StoreCheck(Iterator[Finding]):
    """The findings of one check, as an iterator; ``coverage`` is complete after the last one. Created by
    check_store()."""

    def __init__(
        self,
        path: Path,
        seam: Seam,
        no_lock: bool,
        reading: CheckScope | None = None,
        on_read: Callable[[int, int], None] | None = None,
    ) -> None:
        self.coverage = StoreCoverage(not_verified=("all data: the check has not finished",))
        self._path = path
        self._seam = seam
        self._no_lock = no_lock
        self._reading = reading
        self._on_read = on_read
        # A generator: nothing starts before the first finding is requested.
        self._findings = self._run_child()

    def __iter__(self) -> StoreCheck:
        return self

    def __next__(self) -> Finding:
        return next(self._findings)

    def close(self) -> None:
        """Stop reading."""
        self._findings.close()

    def _start_child(self, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        if not sys.executable:
            raise StorageError("SOW-STO-042", "no Python executable to run the check", place=str(self._path))
        root = str(Path(__file__).parents[2])
        # -P: the child must not import a module of the same name from the current directory.
        command = [
            sys.executable,
            "-P",
            "-c",
            _CHECK_PROGRAM if self._reading is None else _PARTIAL_CHECK_PROGRAM,
            root,
            str(self._path),
        ]
        command += [json.dumps(asdict(self._reading))] if self._reading is not None else []
        command += ["no-lock"] if self._no_lock else []

        def start() -> subprocess.Popen[bytes]:
            pipe, null = subprocess.PIPE, subprocess.DEVNULL
            return subprocess.Popen(command, stdin=null, stdout=pipe, stderr=errors)

        with translate_errors(self._path, "start the check"):
            try:
                return self._seam.call("file.open", start)
            except PermissionError as problem:
                # The program cannot be run; the store was not accessed yet.
                raise StorageError(
                    "SOW-STO-042",
                    f"cannot start the check: {problem.strerror}",
                    place=sys.executable,
                    hint="a store is checked in a separate process: the user needs permission to run Python there",
                ) from problem

    def _run_child(self) -> Generator[Finding]:
        with tempfile.TemporaryFile() as errors:
            # Before the child starts, so that no commit in between goes unnoticed.
            watch = self._open_watch()
            child = self._start_child(errors)
            try:
                where, ended = "", False
                assert child.stdout is not None
                for line in child.stdout:
                    # The child writes one object per line: its progress, a finding, or at the very end the coverage.
                    row = json.loads(line)
                    where = row.get("at", where)
                    if "read" in row and self._on_read is not None:
                        self._on_read(*row["read"])
                    if "finding" in row:
                        yield self._build_finding(**row["finding"])
                    elif "coverage" in row:
                        parts = row["coverage"]
                        record = tuple((start, time) for start, time in parts.pop("record"))
                        missed = tuple(parts.pop("not_verified"))
                        self.coverage = StoreCoverage(**parts, not_verified=missed, record=record)
                        ended = True
                # A check passes only if the child finished and reported its coverage; anything else is a finding.
                if child.wait() or not ended:
                    # The child died while no writer changed its state: then damage was the cause. Otherwise rewritten
                    # pages may have been, which proves nothing about the file.
                    if watch is None or watch.is_state_untouched():
                        yield self._report_child_death(child.returncode, where, _last_line(errors))
                    else:
                        yield self._convert_overtaken(watch.overtaken_error())
            finally:
                if watch is not None:
                    watch.close()
                # The caller may stop early: no child outlives the check.
                if child.poll() is None:
                    child.kill()
                    child.wait()
                if child.stdout is not None:
                    child.stdout.close()

    def _open_watch(self) -> StateWatch | None:
        """Open a watch that shows, if the child reads without locks, whether writers may have caused its death."""
        files = StoreFiles.from_path(self._path)
        if can_lock(files) and not self._no_lock:
            return None
        try:
            watch = StateWatch(files, self._seam)
        except OSError:
            return None  # the child gets the same error, and reports it
        watch.begin_state()
        return watch

    def _convert_overtaken(self, error: SowError) -> Finding:
        missed = ("the checked data: another process wrote to the store during the check",)
        self.coverage = StoreCoverage(not_verified=missed, status=error.exit_status)
        return Finding(error.code, Level.ERROR, Place(str(self._path)), error.message, error.hint)

    def _build_finding(self, id: str, level: int, element: str | None, message: str, hint: str | None) -> Finding:
        return Finding(id, Level(level), Place(str(self._path), element=element), message, hint)

    def _report_child_death(self, status: int, where: str, said: str) -> Finding:
        # Signals mean that LMDB ran into damage: SIGBUS after the end of the file, SIGSEGV or SIGABRT in a page.
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        self.coverage = StoreCoverage(not_verified=(f"all data from here on: {where}",))
        words = f" ({said})" if said else ""
        message = f"the process that was reading the store terminated with {how}{words}, while reading {where}"
        return Finding("SOW-STO-050", Level.ERROR, Place(str(self._path)), message, REBUILD_HINT)


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read()[-2000:].decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def check_store(
    path: str | os.PathLike[str],
    *,
    seam: Seam = SEAM,
    no_lock: bool = False,
    reading: CheckScope | None = None,
    on_read: Callable[[int, int], None] | None = None,
) -> StoreCheck:
    """Read a whole store and yield its problems; ``.coverage`` of the result gives the amount of data read.

    Recomputes checksums, digest, counts, bytes; compares the expiry index with the records and versions with their
    keys. With ``reading``, reads the structure and the selected part of the data. ``on_read`` receives the number of
    records and versions read and their total, with ``reading`` the number of data pages. Raises MissingError,
    StorageError if the check cannot be started.
    """
    real = Path(path).resolve()
    if not real.exists():
        raise missing_store_error(real)
    return StoreCheck(real, seam, no_lock, reading, on_read)


def find_damage(
    path: str | os.PathLike[str], *, seam: Seam, now: int, on_read: Callable[[int, int], None] | None = None
) -> Finding | None:
    """Return the first damage that a check of all data, or one of the structure, finds; None for a sound store.

    For what rebuilds or repairs a store: both kinds of check tell their users to. ``now`` and ``on_read`` as in
    :func:`check_store`. Raises MissingError, StorageError and LockedError where the store cannot be read for another
    reason than damage.
    """
    for reading, told in ((None, on_read), (CheckScope(now), None)):
        with closing(check_store(path, seam=seam, reading=reading, on_read=told)) as checked:
            found = [finding for finding in checked if finding.level >= Level.ERROR]
            status = checked.coverage.status
        if found and status:
            kind = LockedError if status == LockedError.exit_status else StorageError
            raise kind(found[0].id, found[0].message, place=str(path), hint=found[0].hint)
        if found:
            return found[0]
    return None

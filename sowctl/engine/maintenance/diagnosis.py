"""Diagnosis of an instance: file systems, flushes, readers and locks, disk space, clock, versions.

It changes nothing: a flush is measured on an unnamed file. Each finding has a next step. Called by ``doctor``, which
adds the installed packages. Specified in ``sow-store(5)`` and in ``sowctl-guarantees(7)``.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from sowctl.engine.topics.positions import has_log, open_log, read_meta
from sowctl.errors import SowError
from sowctl.lockwait import find_lock_holders
from sowctl.store.meta import FORMAT_VERSION
from sowctl.store.opening.access import DAMAGED_SUFFIX, REPLACED_SUFFIX, StoreFiles
from sowctl.store.opening.locks import read_holder
from sowctl.store.repair.leftovers import list_leftovers
from sowctl.store.repair.space import SpaceUsage, measure_space_at
from sowctl.values.display import format_bytes, format_count, format_duration
from sowctl.values.times import format_time
from sowctl.work_directories import list_dead_directories

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance

DiagnosisState = Literal["ok", "absent", "warning", "problem"]
NETWORK_FILE_SYSTEMS = frozenset(
    (
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ncpfs",
        "ceph",
        "glusterfs",
        "lustre",
        "beegfs",
        "gpfs",
        "fuse.sshfs",
    )
)
"""Network file systems: locks and memory maps do not work between two machines."""
MEMORY_FILE_SYSTEMS = frozenset(("tmpfs", "ramfs"))
MIN_FLUSH_SECONDS = 20e-6
"""Seconds; a faster flush has not reached a disk (``reliability``, Stated limits)."""
FLUSH_SAMPLES = 15
MAX_KEPT_SHARE = 0.1
MAX_FREE_SHARE = 0.5
MIN_STORE_PAGES = 1024
"""Pages below which free or retained pages of a store are not reported."""
LONG_HOLD_SECONDS = 60.0
MAX_CLOCK_LAG_MICROS = 1_000_000
"""Microseconds that the clock may lag behind the newest entry: two processes read it one after the other."""


class Diagnosis(Struct, frozen=True):
    """One finding. ``absent`` is no fault; ``hint`` is the next step."""

    name: str
    state: DiagnosisState
    detail: str
    hint: str | None = None


def diagnose_instance(instance: Instance) -> Iterator[Diagnosis]:
    """Yield the findings for an instance with a configuration, in the order of output."""
    # Path.exists raises in a directory without search permission; the checks of directories report that.
    stores = [topic for topic in instance.topics if topic.file is not None and os.access(topic.file, os.F_OK)]
    places = {topic.file.parent: None for topic in stores if topic.file is not None}
    if instance.log is not None and instance.log.directory.is_dir():
        places = {instance.log.directory: None} | places
    mounts = _read_text(Path("/proc/self/mountinfo"))
    for place in places:
        yield from diagnose_file_system(place, mounts, measure_flush)
    for topic in stores:
        yield from _diagnose_store(instance, topic)
    if instance.log is not None and instance.config is not None:
        lock = instance.log.directory / f"{instance.config.name}.lock"
        # Not dated: a process that waits for this lock updates its file (JournalLock), so the time does not date the
        # holder.
        yield from diagnose_lock("journal lock", lock, *_read_journal_holder(lock), dated=False)
        yield from _diagnose_journal(instance)
    yield from _diagnose_work_directories()
    yield from _diagnose_clock(instance, stores)


# File systems


def diagnose_file_system(place: Path, mounts: str, flushed: Callable[[Path], float | None]) -> Iterator[Diagnosis]:
    """Diagnose the type of a directory's file system, and the time of a flush; ``mounts`` is Linux's mountinfo."""
    name, kind = f"file system of {place}", find_file_system_kind(place, mounts)
    if kind is None:
        yield Diagnosis(name, "absent", "unknown type")
    elif kind in NETWORK_FILE_SYSTEMS:
        hint = "move journal and stores to a local disk: LMDB and locks are unreliable on network file systems"
        yield Diagnosis(name, "problem", f"{kind}, a network file system", hint)
        return
    elif kind in MEMORY_FILE_SYSTEMS:
        hint = "suitable for tests; put data that must survive a power failure on a disk"
        yield Diagnosis(name, "warning", f"{kind}: in memory, lost when the machine stops", hint)
        return
    elif kind.startswith("fuse"):
        hint = "check that it is local and supports fsync, mmap and flock"
        yield Diagnosis(name, "warning", f"{kind}, a user-space file system", hint)
    else:
        yield Diagnosis(name, "ok", kind)
    taken = flushed(place)
    if taken is None:
        yield Diagnosis(f"flush in {place}", "absent", "it cannot be measured here")
    elif taken < MIN_FLUSH_SECONDS:
        yield Diagnosis(
            f"flush in {place}",
            "warning",
            f"{taken * 1000000.0:.0f} us: too fast to have reached a disk",
            "a power failure may lose acknowledged messages, unless the disk cache has a battery",
        )
    else:
        yield Diagnosis(f"flush in {place}", "ok", f"{format_duration(taken)}")


def find_file_system_kind(place: Path, mounts: str) -> str | None:
    """Return the type of the file system that has a directory; None if ``mounts`` does not list it."""
    real = place.resolve()
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        # "36 35 98:0 /root /mount options ... - ext3 /dev/sda1 rw": the number of fields before the dash varies.
        before, dash, behind = line.partition(" - ")
        fields = before.split()
        if not dash or len(fields) < 5:
            continue
        point = Path(fields[4].encode().decode("unicode_escape"))
        # Later lines are mounted over earlier ones.
        if real.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = len(point.parts), behind.split()[0]
    return None if best is None else best[1]


def measure_flush(place: Path) -> float | None:
    """Return the median time of some flushes of a small write, in seconds, on an unnamed file; None if that fails."""
    try:
        fd = os.open(place, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        times = []
        for number in range(FLUSH_SAMPLES):
            os.pwrite(fd, bytes((number,)) * 512, 512 * number)
            started = time.perf_counter()
            os.fsync(fd)
            times.append(time.perf_counter() - started)
        return median(times)
    except OSError:
        return None
    finally:
        os.close(fd)


# Stores


def _diagnose_store(instance: Instance, topic: TopicConfig) -> Iterator[Diagnosis]:
    assert topic.file is not None
    path, name = topic.file, f"store of {topic.name}"
    try:
        meta = read_meta(path, instance)
    except SowError as error:
        yield Diagnosis(name, "problem", error.summary, error.hint or f"sowctl store check {topic.name} shows details")
        return
    space = measure_space_at(path, instance.seam)
    version = f"format {meta.format_version}" + (" (older)" if meta.format_version < FORMAT_VERSION else "")
    if space is None:
        yield Diagnosis(name, "ok", f"{version}, {format_count(meta.records, 'record')}")
    else:
        yield from diagnose_space(
            name, topic.name, f"{version}, {format_count(meta.records, 'record')}", space, _measure_free_room(path)
        )
    files = StoreFiles.from_path(path)
    words, facts = read_holder(files.writer)
    yield from diagnose_lock(f"writer lock of {topic.name}", files.writer, words, facts.get("holder_pid"))
    if left := list_leftovers(path):
        size = sum(one.bytes for one in left)
        detail = f"{format_count(len(left), 'file')} of killed processes, {format_bytes(size)}"
        yield Diagnosis(
            f"leftovers of {topic.name}", "warning", detail, f"sowctl store clean {topic.name} removes them"
        )
    kept = [
        one
        for one in files.directory.iterdir()
        if one.name.startswith((path.name + DAMAGED_SUFFIX, path.name + REPLACED_SUFFIX))
    ]
    if kept:
        size = sum(one.stat().st_size for one in kept)
        detail = f"{format_count(len(kept), 'previous store file')}, {format_bytes(size)}"
        yield Diagnosis(f"kept of {topic.name}", "warning", detail, "remove them when they are no longer needed")
    if path.stat().st_mode & 0o007:
        detail = f"{path.name} is accessible to all users of this machine"
        yield Diagnosis(f"permissions of {topic.name}", "warning", detail, f"chmod o-rwx {path}")


def diagnose_space(name: str, topic: str, detail: str, space: SpaceUsage, room: int) -> Iterator[Diagnosis]:
    """Diagnose free pages, pages retained for readers, and whether ``room`` (free bytes) suffices for a copy of the
    store."""
    free = space.free_pages / space.pages
    detail += f", {format_bytes(space.file_bytes)} of {format_bytes(space.map_bytes)} of its map, {free:.0%} free"
    large = space.pages >= MIN_STORE_PAGES
    if room < space.used_bytes:
        words = f"{detail}; {format_bytes(room)} free on the disk"
        yield Diagnosis(
            name, "warning", words, "free space: a rebuild or a compaction needs as much as the size of the store"
        )
    elif large and free >= MAX_FREE_SHARE:
        yield Diagnosis(name, "warning", detail, f"sowctl store compact {topic} makes it smaller")
    else:
        yield Diagnosis(name, "ok", detail)
    oldest = space.oldest
    if oldest is None:
        return
    behind, kept = format_count(space.behind, "transaction"), format_count(space.retained_pages, "page")
    who = f"process {oldest.pid}, {behind} behind, retains {kept}"
    if oldest.seconds is None:
        hint = f"its process has ended: the next writer to {topic} removes it"
        yield Diagnosis(f"readers of {topic}", "warning", f"a reader slot of {who}", hint)
    elif large and space.retained_pages >= MAX_KEPT_SHARE * space.pages:
        hint = f"the file grows until this reader ends: check what process {oldest.pid} is waiting for"
        yield Diagnosis(
            f"readers of {topic}", "warning", f"{who}, running for {format_duration(oldest.seconds, whole=True)}", hint
        )


def _measure_free_room(path: Path) -> int:
    facts = os.statvfs(path.parent)
    return facts.f_bavail * facts.f_frsize


# Locks


def diagnose_lock(name: str, path: Path, words: str, pid: int | None, *, dated: bool = True) -> Iterator[Diagnosis]:
    """Diagnose a held lock; yield nothing if it is free. ``dated``: its file is modified when the lock is taken."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return
    except BlockingIOError:
        since = time.time() - os.fstat(fd).st_mtime
    finally:
        os.close(fd)
    stopped = pid is not None and read_process_state(pid) in ("T", "t")
    if stopped:
        yield Diagnosis(
            name,
            "problem",
            f"held by a suspended process{words}",
            f"kill -CONT {pid} resumes it, kill {pid} ends it",
        )
    elif dated and since > LONG_HOLD_SECONDS:
        yield Diagnosis(
            name,
            "warning",
            f"held for {format_duration(since, whole=True)}{words}",
            "other processes wait for it: check what its process is doing",
        )
    else:
        yield Diagnosis(name, "ok", f"held at the moment{words}")


def read_process_state(pid: int) -> str | None:
    """Return the letter of a process's state in Linux; None without the process."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return None


def _diagnose_work_directories() -> Iterator[Diagnosis]:
    """Diagnose temporary directories of killed processes of this user, for any instance."""
    if left := list_dead_directories():
        size = sum(one.bytes for one in left)
        detail = (
            f"{format_count(len(left), 'temporary directory', 'temporary directories')} of killed processes in "
            f"{left[0].path.parent}, {format_bytes(size)}"
        )
        yield Diagnosis("leftovers", "warning", detail, "sowctl store clean removes them")


def _read_journal_holder(lock: Path) -> tuple[str, int | None]:
    known = find_lock_holders(lock) if lock.exists() else set()
    return (f": process {min(known)}", min(known)) if known else ("", None)


def _diagnose_journal(instance: Instance) -> Iterator[Diagnosis]:
    try:
        if not has_log(instance):
            yield Diagnosis("journal", "absent", "no files yet")
            return
        with open_log(instance) as log:
            count, first, last = len(log.list_files()), log.first_txid, log.read_last_txid()
        yield Diagnosis("journal", "ok", f"{format_count(count, 'file')}, txid {first:,} to {last:,}")
    except SowError as error:
        yield Diagnosis("journal", "problem", error.summary, error.hint or "sowctl journal check shows details")


# Clock


def _diagnose_clock(instance: Instance, stores: Sequence[TopicConfig]) -> Iterator[Diagnosis]:
    newest = [(0, "")]
    for topic in stores:
        assert topic.file is not None
        with suppress(SowError):
            newest.append((read_meta(topic.file, instance).last_time, topic.name))
    with suppress(SowError):
        if has_log(instance):
            with open_log(instance) as log:
                newest += [(state.last_time, name) for (name, _), state in log.read_topic_states().items()]
    yield from diagnose_clock_lag(instance.now, *max(newest))


def diagnose_clock_lag(now: int, latest: int, topic: str) -> Iterator[Diagnosis]:
    """Diagnose a clock (microseconds) that lags behind the newest entry, which is of this topic."""
    if not latest:
        yield Diagnosis("clock", "ok", format_time(now))
    elif now + MAX_CLOCK_LAG_MICROS < latest:
        yield Diagnosis(
            "clock",
            "problem",
            f"the clock, {format_time(now)}, is {format_duration((latest - now) / 1000000.0)} "
            f"behind the newest entry, of {topic}",
            "correct the clock: until it catches up, new messages get the time of that entry",
        )
    else:
        yield Diagnosis("clock", "ok", f"{format_time(now)}; the newest entry is of {format_time(latest)}")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""

"""backup: creates a verified backup of an instance as of one instant, lists backups, or verifies an existing one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sowctl.engine.instance import ignore_progress
from sowctl.engine.maintenance.backup.creation import take_backup
from sowctl.engine.maintenance.backup.folder import Backup, find_backup, hold_directory, read_backups, wrap_write_errors
from sowctl.engine.maintenance.backup.manifest import BackupManifest
from sowctl.engine.maintenance.backup.verification import compare_files, link_probe_tree, verify_topics
from sowctl.seam import Seam
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance

OpenInstance = Callable[[Path, Path], "Instance"]
"""Opens the instance of a configuration whose paths are relative to a directory."""


class BackupReport(Struct, frozen=True):
    """One backup. ``bytes`` of all its files, ``copied_bytes`` of those that are not links; ``at`` is its instant.

    ``kept`` files are links to those of the backup ``base``; ``reason`` says why there is no base.
    """

    action: str
    name: str
    path: str
    kind: str
    base: str | None
    reason: str | None
    at: str
    first_txid: int
    last_txid: int
    lineage: str | None
    stores: int
    records: int
    versions: int
    files: int
    copied: int
    linked: int
    kept: int
    bytes: int
    copied_bytes: int
    seconds: float
    verified: str | None
    note: str | None = None


class BackupRow(Struct, frozen=True):
    """One backup in a list; with a ``problem``, its manifest cannot be used and the other members are null."""

    name: str
    kind: str | None = None
    base: str | None = None
    created: str | None = None
    at: str | None = None
    first_txid: int | None = None
    last_txid: int | None = None
    history: str | None = None
    records: int | None = None
    files: int | None = None
    bytes: int | None = None
    verified: str | None = None
    problem: str | None = None


def create_backup(
    instance: Instance, directory: Path, *, bookmarks: Sequence[Path] = (), full: bool = False
) -> BackupReport:
    """Create a backup. Raises as :func:`~sowctl.engine.maintenance.backup.creation.take_backup`."""
    begin = time.monotonic()
    manifest, path = take_backup(instance, directory, bookmarks=bookmarks, full=full)
    return _build_report("backed up", manifest, path, time.monotonic() - begin)


def list_backups(directory: Path) -> Iterator[BackupRow]:
    """Yield the backups in a directory, oldest first. Raises MissingError ``SOW-BAK-005``."""
    for one in read_backups(directory):
        yield _build_row(one)


def verify_backup(
    directory: Path,
    name: str | None,
    open_instance: OpenInstance,
    *,
    seam: Seam,
    wait: float,
    watch: Callable[[str, int, int], None] = ignore_progress,
) -> BackupReport:
    """Read every file of a backup (None: the newest), compare digests, and open it as an instance. ``watch`` is called
    with the progress.

    Raises DamageError ``SOW-BAK-001``, MissingError ``SOW-BAK-005``, StorageError ``SOW-BAK-003``.
    """
    begin = time.monotonic()
    with hold_directory(directory, seam, wait), wrap_write_errors(directory, "verify the backup"):
        found = find_backup(directory, name)
        manifest = found.valid_manifest
        compare_files(manifest, found.tree, seam, watch)
        with link_probe_tree(found.tree, manifest, directory / f".{found.path.name}.probe.new", seam) as place:
            verify_topics(replace(open_instance(place / manifest.configuration, place), watch=watch), manifest, place)
    return _build_report("verified", manifest, found.path, time.monotonic() - begin)


def _build_report(action: str, manifest: BackupManifest, path: Path, seconds: float) -> BackupReport:
    count = {how: sum(file.how == how for file in manifest.files) for how in ("copied", "linked", "kept")}
    note = f"{manifest.kind} backup"
    if manifest.base is not None:
        note += f", built on {manifest.base}"
    elif manifest.reason is not None:
        note += f" ({manifest.reason})"
    return BackupReport(
        action=action,
        name=manifest.name,
        path=str(path),
        kind=manifest.kind,
        base=manifest.base,
        reason=manifest.reason,
        at=format_time(manifest.time),
        first_txid=manifest.first_txid,
        last_txid=manifest.last_txid,
        lineage=manifest.lineage,
        stores=len(manifest.topics),
        records=sum(topic.records for topic in manifest.topics),
        versions=sum(topic.versions for topic in manifest.topics),
        files=len(manifest.files),
        copied=count["copied"],
        linked=count["linked"],
        kept=count["kept"],
        bytes=manifest.bytes,
        copied_bytes=sum(file.size for file in manifest.files if file.how == "copied"),
        seconds=round(seconds, 3),
        verified=None if manifest.verified is None else format_time(manifest.verified),
        note=note,
    )


def _build_row(one: Backup) -> BackupRow:
    known = one.manifest
    if known is None:
        return BackupRow(one.path.name, problem=one.problem.message if one.problem is not None else None)
    return BackupRow(
        name=one.path.name,
        kind=known.kind,
        base=known.base,
        created=format_time(known.created),
        at=format_time(known.time),
        first_txid=known.first_txid,
        last_txid=known.last_txid,
        history=None if known.lineage is None else known.lineage[:8],
        records=sum(topic.records for topic in known.topics),
        files=len(known.files),
        bytes=known.bytes,
        verified=None if known.verified is None else format_time(known.verified),
    )

"""Verification of a backup: it is opened as an instance, every store is checked, and every digest compared.

It is opened in a tree of links, so that nothing is ever written next to the files of a backup, not even a lock.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.instance import ignore_progress
from sowctl.engine.maintenance.backup.file_copy import PortionProgress, link_or_copy, read_digest
from sowctl.engine.maintenance.backup.layout import move_instance
from sowctl.engine.maintenance.backup.manifest import BackupManifest, BackupTopic, build_damage_error
from sowctl.engine.sources.digest import compute_digest
from sowctl.engine.topics.targets import Target
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.seam import Seam


@contextmanager
def link_probe_tree(tree: Path, manifest: BackupManifest, place: Path, seam: Seam) -> Iterator[Path]:
    """Create a tree of links to the files of a backup below ``place``, which must not exist; removed at the end.

    Raises OSError.
    """
    try:
        for file in manifest.files:
            target = place / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(tree / file.path, target, seam)
        yield place
    finally:
        if place.exists():
            shutil.rmtree(place, ignore_errors=True)


def verify_topics(
    instance: Instance, manifest: BackupManifest, tree: Path, read: Collection[str] | None = None
) -> None:
    """Compare every topic of the instance whose files are below ``tree`` with the manifest.

    ``read``: the stores (paths within the tree) to check byte by byte, None for all. Raises DamageError
    ``SOW-BAK-001``, and what reading raises.
    """
    there = move_instance(instance, tree, manifest.time)
    # Checks first: a long-running program keeps files open after reading them.
    for topic in manifest.topics:
        if topic.file is not None and (read is None or topic.file in read):
            check_store_file(tree / topic.file, instance.seam, instance.build_watch("records to prove"))
    for topic in manifest.topics:
        if topic.file is not None:
            _compare_topic(there, topic, tree)


def check_store_file(path: Path, seam: Seam, on_read: Callable[[int, int], None] | None = None) -> None:
    """Read every byte of a store; ``on_read`` is called with the read and the total number of entries.

    Raises DamageError ``SOW-BAK-001``.
    """
    from sowctl.findings import Level
    from sowctl.store.check import check_store

    for finding in (findings := check_store(path, seam=seam, on_read=on_read)):
        if finding.level >= Level.ERROR:
            raise build_damage_error(str(path), f"{finding.id}: {finding.message}")
    # An incomplete check proves nothing.
    if not findings.coverage.is_complete:
        raise build_damage_error(
            str(path), f"the store was read only in part: {'; '.join(findings.coverage.not_verified)}"
        )


def _compare_topic(there: Instance, topic: BackupTopic, tree: Path) -> None:
    found = next(one for one in there.topics if one.ref == topic.ref)
    shown = compute_digest(there, Target(topic=found))
    if (shown.digest, shown.records, shown.versions) != (topic.digest, topic.records, topic.versions):
        raise build_damage_error(
            str(tree / (topic.file or "")),
            f"topic {topic.topic} has digest {shown.digest} and {format_count(shown.records, 'record')}, not "
            f"{topic.digest} and {topic.records:,}",
        )


def compare_files(
    manifest: BackupManifest, tree: Path, seam: Seam, watch: Callable[[str, int, int], None] = ignore_progress
) -> int:
    """Compare every file with the manifest; return the bytes read. ``watch`` is called with the progress.

    Raises DamageError ``SOW-BAK-001``, OSError if a file cannot be read.
    """
    total, told = 0, PortionProgress(watch, "bytes to compare", manifest.bytes)
    for file in manifest.files:
        path = tree / file.path
        if not path.is_file():
            raise build_damage_error(str(path), "the file is missing")
        size, found = read_digest(path, seam, told)
        total += size
        if (size, found) != (file.size, file.digest):
            raise build_damage_error(
                str(path),
                f"the file has {format_count(size, 'byte')} with digest {found}, not {file.size:,} with {file.digest}",
            )
    known = {file.path for file in manifest.files}
    for at, _, names in os.walk(tree):
        for name in names:
            if str((Path(at) / name).relative_to(tree)) not in known:
                raise build_damage_error(str(Path(at) / name), "the file is not in the manifest")
    return total

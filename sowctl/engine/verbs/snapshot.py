"""snapshot: writes a past state of a topic, as records or as a store file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.config.model import escape_file_name
from sowctl.engine.topics.positions import build_definition
from sowctl.engine.topics.targets import Target
from sowctl.engine.views.openers import open_filtered_target
from sowctl.errors import RefusedError
from sowctl.store.builder import StoreBuilder, build_store
from sowctl.store.codec import read_stamps
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.meta import Definition
from sowctl.store.opening.locks import WriterLock

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.store.write import WriteTxn


class SnapshotReport(Struct, frozen=True):
    """A snapshot file: number of records, bytes of their payloads, instant (microseconds UTC), digest."""

    topic: str
    message_type: str
    path: str
    records: int
    payload_bytes: int
    at: int
    digest: str


def write_snapshot(
    instance: Instance, target: Target, at: int | None, path: Path, *, filter: str | None = None, force: bool = False
) -> SnapshotReport:
    """Write the state of a target as of ``at`` (None: now), or its records that match ``filter``, to a new store file.

    The file has only records, no versions, and follows no journal.

    Raises RefusedError ``SOW-SNP-001`` if ``path`` exists (unless ``force``), and what reading past states raises.
    """
    return _write_stores(instance, [(target, path)], at, filter=filter, force=force)[0]


def write_source(instance: Instance, target: Target, source: Source, at: int, path: Path) -> SnapshotReport:
    """Write a snapshot as :func:`write_snapshot`, from the open ``source`` of a target; replace a file at ``path``."""
    definition = _build_definition(instance, target, source)
    with build_store(path, definition, seam=instance.seam, now=instance.now) as builder:
        report = _copy_records(source, builder, at)
        builder.install(wait=instance.lock_wait)
    return report


def write_snapshots(
    instance: Instance,
    targets: Sequence[Target],
    at: int | None,
    directory: Path,
    *,
    filter: str | None = None,
    force: bool = False,
) -> list[SnapshotReport]:
    """Write the states of several targets as of one instant to new store files ``NAME.TYPE.sow`` in ``directory``.

    The directory is created if it does not exist. If one of the files cannot be written, none is: files that ``force``
    would replace stay. Raises as :func:`write_snapshot`; if one of the files exists, before anything is written.
    """
    then = instance.now if at is None else at
    paths = [directory / _name_file(target) for target in targets]
    return _write_stores(instance, list(zip(targets, paths, strict=True)), then, filter=filter, force=force)


def _write_stores(
    instance: Instance, stores: Sequence[tuple[Target, Path]], at: int | None, *, filter: str | None, force: bool
) -> list[SnapshotReport]:
    then = instance.now if at is None else at
    for _, path in stores:
        _refuse_existing(path, force=force)
    reports: list[SnapshotReport] = []
    with ExitStack() as stack:
        builders: list[StoreBuilder] = []
        for target, path in stores:
            with closing(open_filtered_target(instance, target, at, filter)) as source:
                definition = _build_definition(instance, target, source)
                builder = stack.enter_context(build_store(path, definition, seam=instance.seam, now=instance.now))
                reports.append(_copy_records(source, builder, then))
            builders.append(builder)
        _install_stores(builders, instance.lock_wait)
    return reports


def _copy_records(source: Source, builder: StoreBuilder, at: int) -> SnapshotReport:
    """Write the records of a source as of ``at`` to a store under construction, and close its file."""
    last_time = last_txid = 0
    for keys, values in source.read_batches(STORE_LIMITS.read_batch_records):
        builder.append_records(keys, values)
        for value in values:
            txid, time = read_stamps(value)
            last_txid, last_time = max(last_txid, txid), max(last_time, time)

    def position(txn: WriteTxn) -> None:
        # Without a lineage: the file follows no journal, and is not checked against one.
        txn.set_applied_position(bytes(16), last_txid)
        txn.raise_last_time(last_time)

    builder.flush()
    builder.run_transaction(position)
    # Of many topics, only one descriptor each stays open until all are complete.
    builder.finish()
    meta, path = builder.meta, str(builder.files.path)
    return SnapshotReport(
        source.topic, source.message_type, path, meta.records, meta.payload_bytes, at, f"{meta.digest:032x}"
    )


def _install_stores(builders: Sequence[StoreBuilder], wait: float) -> None:
    """Rename all stores to their final names when all are complete; if one fails, remove the new ones."""
    locks: list[WriterLock] = []
    made: list[list[Path]] = []
    builders = sorted(builders, key=lambda one: one.files.path)
    with ExitStack() as stack:
        # All locks first, in the same order in all runs: if one store is in use, no other may be replaced.
        for builder in builders:
            files = builder.files
            # The files that belong to a store; all other files stay, whatever their names are.
            own = (files.path, files.lock, files.gate, files.writer)
            new = [file for file in own if not file.exists()]
            lock = WriterLock(files, builder.seam, builder.command)
            stack.enter_context(lock.hold(wait))
            # Before the lock is released: a process that waits for it sees that its file is gone, and creates a new
            # one.
            stack.callback(_remove_files, new)
            locks.append(lock)
            made.append(new)
        for builder, lock in zip(builders, locks, strict=True):
            builder.install(lock=lock, wait=wait)
        for new in made:
            new.clear()


def _remove_files(files: Sequence[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _name_file(target: Target) -> str:
    if target.topic is None:
        assert target.path is not None
        return target.path.name
    return escape_file_name(f"{target.topic.label}.{target.topic.message_type}.sow")


def _refuse_existing(path: Path, *, force: bool) -> None:
    if path.exists() and not force:
        raise RefusedError("SOW-SNP-001", "the file exists", place=str(path), hint="--force replaces it")


def _build_definition(instance: Instance, target: Target, source: Source) -> Definition:
    if target.topic is not None and instance.config is not None:
        return build_definition(instance.config.name, target.topic)
    return source.definition

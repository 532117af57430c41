"""snapshot: a topic as it was, as records or as a store file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.config.model import escape_file_name
from sowctl.engine.topics.positions import build_definition
from sowctl.engine.topics.targets import Target
from sowctl.engine.views.openers import open_filtered_target
from sowctl.errors import RefusedError
from sowctl.store.builder import build_store
from sowctl.store.codec import read_stamps
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.meta import Definition

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.store.write import WriteTxn


class SnapshotReport(Struct, frozen=True):
    """A snapshot file: records and bytes of payload in it, the instant (microseconds UTC), its digest."""

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
    """Write the state of a target as of ``at`` (None: now) into a new store file, or the records that match ``filter``.

    It holds the records alone, no versions, and follows no journal.

    Raises RefusedError ``SOW-SNP-001`` where ``path`` exists (unless ``force``), and what reading the past raises.
    """
    then = instance.now if at is None else at
    _refuse_existing(path, force=force)
    source = open_filtered_target(instance, target, at, filter)
    with (
        closing(source),
        build_store(path, _build_definition(instance, target, source), seam=instance.seam, now=instance.now) as builder,
    ):
        last_time = last_txid = 0
        for keys, values in source.read_batches(STORE_LIMITS.read_batch_records):
            builder.append_records(keys, values)
            for value in values:
                txid, time = read_stamps(value)
                last_txid, last_time = max(last_txid, txid), max(last_time, time)

        def position(txn: WriteTxn) -> None:
            # Without a lineage: the file follows no journal, and none is asked to explain it.
            txn.set_applied_position(bytes(16), last_txid)
            txn.raise_last_time(last_time)

        builder.flush()
        builder.run_transaction(position)
        # The file gets its name only when it is complete.
        builder.install(wait=instance.lock_wait)
        meta = builder.meta
    return SnapshotReport(
        source.topic, source.message_type, str(path), meta.records, meta.payload_bytes, then, f"{meta.digest:032x}"
    )


def write_snapshots(
    instance: Instance,
    targets: Sequence[Target],
    at: int | None,
    directory: Path,
    *,
    filter: str | None = None,
    force: bool = False,
) -> list[SnapshotReport]:
    """Write the states of several targets as of one instant into new store files ``NAME.TYPE.sow`` in ``directory``.

    The directory is made if it does not exist. If one of the files cannot be written, those that are new are removed.
    Raises as :func:`write_snapshot`, before anything is written where one of the files exists.
    """
    then = instance.now if at is None else at
    paths = [directory / _name_file(target) for target in targets]
    for path in paths:
        _refuse_existing(path, force=force)
    present = {path for path in paths if path.exists()}
    directory.mkdir(parents=True, exist_ok=True)
    try:
        return [
            write_snapshot(instance, target, then, path, filter=filter, force=force)
            for target, path in zip(targets, paths, strict=True)
        ]
    except BaseException:
        for path in paths:
            # With the files that a store has beside it.
            for made in () if path in present else directory.glob(f"{escape(path.name)}*"):
                made.unlink(missing_ok=True)
        raise


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

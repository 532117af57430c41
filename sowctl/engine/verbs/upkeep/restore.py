"""restore: an instance made of a backup, as of its instant or an earlier one, in a directory of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.instance import unwatched
from sowctl.engine.upkeep.backup.restoring import Opener, Restored, RestorePlan, plan_restore, refuse_taken
from sowctl.engine.upkeep.backup.restoring import restore as carry_out
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.seam import Seam
    from sowctl.values.times import Micros


class RestoredTopic(Struct, frozen=True):
    """One topic: where its store comes from (a backup, or the journal), and the digest that it has at the instant.

    ``records`` and ``versions`` are None where only the restore itself counts them: in a dry run to an earlier place.
    """

    topic: str
    message_type: str
    source: str
    records: int | None
    versions: int | None
    digest: str | None


class RestoreReport(Struct, frozen=True):
    """What was restored. ``last_txid`` is the last one of the history that this ended; ``next_txid`` the first one of
    the new history ``history``. ``records`` and ``versions`` are None as in :class:`RestoredTopic`. ``configuration``
    is that of the restored instance."""

    action: str
    dry_run: bool
    path: str
    backup: str
    at: str
    first_txid: int
    last_txid: int
    undone: int
    former_history: str | None
    history: str | None
    next_txid: int
    records: int | None
    versions: int | None
    bytes: int
    seconds: float
    configuration: str
    restored: tuple[RestoredTopic, ...]
    left_out: tuple[str, ...]
    outside: tuple[str, ...]
    note: str


def restore(
    directory: Path,
    to: Path,
    open_instance: Opener,
    *,
    name: str | None = None,
    txid: int | None = None,
    at: Micros | None = None,
    dry_run: bool = False,
    seam: Seam,
    now: Micros,
    lineage: bytes,
    watch: Callable[[str, int, int], None] = unwatched,
) -> RestoreReport:
    """Restore into the directory ``to``, which is empty or not there; ``lineage``: 16 random bytes. ``watch`` is told
    how far it has come.

    Raises as :func:`~sowctl.engine.upkeep.backup.restoring.plan_restore` and ``restore`` there.
    """
    begin = time.monotonic()
    refuse_taken(to)
    plan = plan_restore(directory, name=name, txid=txid, at=at, seam=seam)
    done = None if dry_run else carry_out(plan, to, open_instance, seam=seam, now=now, lineage=lineage, watch=watch)
    return _report(plan, done, to, time.monotonic() - begin)


def _report(plan: RestorePlan, done: Restored | None, to: Path, seconds: float) -> RestoreReport:
    manifest = plan.manifest
    topics = []
    for one in plan.stores:
        shown = done.digests.get((one.topic.topic, one.topic.message_type)) if done is not None else None
        records: int | None
        versions: int | None
        if shown is not None:
            records, versions = shown[1], shown[2]
        elif done is None and not plan.whole:
            # The counts of the backup are those of its own instant.
            records = versions = None
        else:
            records, versions = one.topic.records, one.topic.versions
        source = f"backup {one.source.path.name}" if one.source is not None else "journal"
        topics.append(
            RestoredTopic(
                one.topic.topic, one.topic.message_type, source, records, versions, shown[0] if shown else None
            )
        )
    last = plan.end.txid if plan.end is not None else 0
    outside = tuple(sorted({file.path for file in manifest.files if file.path.startswith("outside/")}))
    note = f"the instance of backup {plan.backup.path.name} as of {format_time(plan.time)}"
    if plan.end is not None:
        note += f", which goes on with txid {plan.above + 1} in a history of its own"
    if plan.beyond:
        note += (
            f"; the group in which txid {last - plan.beyond} lies goes on to txid {last} and happens as a whole; "
            f"--txid {plan.before} leaves it out"
        )
    if plan.short:
        note += (
            f"; entries behind txid {last} that are not beyond the place asked for are left out: a group happens as a "
            "whole, and one goes beyond it"
        )
    if outside:
        note += f"; {len(outside)} files whose paths are absolute lie in 'outside': correct the paths before it is used"
    if any(topic.records is None for topic in topics):
        note += "; its records are counted when it is restored"
    return RestoreReport(
        action="to restore" if done is None else "restored",
        dry_run=done is None,
        path=str(to),
        backup=plan.backup.path.name,
        at=format_time(plan.time),
        first_txid=manifest.first_txid,
        last_txid=last,
        undone=max(manifest.last_txid - last, 0) if plan.end is not None else 0,
        former_history=manifest.lineage,
        history=None if done is None or done.lineage is None else done.lineage.hex(),
        next_txid=plan.above + 1 if plan.end is not None else 0,
        records=_sum(topic.records for topic in topics),
        versions=_sum(topic.versions for topic in topics),
        bytes=done.bytes if done is not None else 0,
        seconds=round(seconds, 3),
        configuration=str(to / manifest.configuration),
        restored=tuple(topics),
        left_out=plan.left_out,
        outside=outside,
        note=note,
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)

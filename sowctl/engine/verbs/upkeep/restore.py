"""restore: restores an instance from a backup to a new directory, as of the backup's instant or an earlier one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from sowctl.engine.instance import ignore_progress
from sowctl.engine.maintenance.backup.journals import CutChoice, TopicLeftOut
from sowctl.engine.maintenance.backup.restore import (
    OpenInstance,
    RestorePlan,
    RestoreResult,
    plan_restore,
    require_free_place,
)
from sowctl.engine.maintenance.backup.restore import run_restore as carry_out
from sowctl.errors import RefusedError
from sowctl.values.display import format_count
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.seam import Seam
    from sowctl.values.times import Micros


class RestoredTopic(Struct, frozen=True):
    """One topic: the origin of its store (a backup, or the journal), and its digest at the instant.

    ``records`` and ``versions`` are None if only the restore itself can count them: in a dry run to an earlier
    position.
    """

    topic: str
    message_type: str
    source: str
    records: int | None
    versions: int | None
    digest: str | None


class RestoreReport(Struct, frozen=True):
    """The result of a restore. ``last_txid`` is the last one of the ended history; ``next_txid`` the first one of the
    new history ``history``. ``records`` and ``versions`` are None as in :class:`RestoredTopic`. ``entries_left_out``:
    by topic, the entries that are not later than the requested time but are not in the restored instance; ``choices``:
    the txids that include some or all of them. ``configuration`` is that of the restored instance."""

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
    entries_left_out: tuple[TopicLeftOut, ...]
    choices: tuple[CutChoice, ...]
    outside: tuple[str, ...]
    note: str


def restore_backup(
    directory: Path,
    to: Path,
    open_instance: OpenInstance,
    *,
    name: str | None = None,
    txid: int | None = None,
    at: Micros | None = None,
    dry_run: bool = False,
    force: bool = False,
    seam: Seam,
    now: Micros,
    lineage: bytes,
    watch: Callable[[str, int, int], None] = ignore_progress,
) -> RestoreReport:
    """Restore to the directory ``to``, which is empty or does not exist; ``lineage``: 16 random bytes. ``watch`` is
    called with the progress.

    Raises as :func:`~sowctl.engine.maintenance.backup.restore.plan_restore` and ``run_restore`` there.
    """
    begin = time.monotonic()
    require_free_place(to)
    plan = plan_restore(directory, name=name, txid=txid, at=at, seam=seam)
    if at is not None and not force:
        refuse_empty_topics(plan, at)
    done = None if dry_run else carry_out(plan, to, open_instance, seam=seam, now=now, lineage=lineage, watch=watch)
    return _build_report(plan, done, to, time.monotonic() - begin)


def refuse_empty_topics(plan: RestorePlan, at: Micros) -> None:
    """Reject a restore to a time after which a topic would be empty although it has entries up to that time.

    Raises RefusedError ``SOW-BAK-008``.
    """
    left_out = plan.entries_left_out
    names = left_out.empty_topics
    if names:
        what = f"topic {names[0]} would be empty" if len(names) == 1 else f"topics {', '.join(names)} would be empty"
        raise RefusedError(
            "SOW-BAK-008",
            f"{what}: {describe_left_out(left_out.topic_counts, format_time(at))}",
            place=str(plan.backup.path),
            hint=f"{describe_choices(left_out.choices)}; --force restores without them",
            entries_left_out=[asdict(topic) for topic in left_out.topic_counts],
            choices=[asdict(choice) for choice in left_out.choices],
        )


def describe_left_out(topic_counts: Sequence[TopicLeftOut], at: str) -> str:
    """Describe how many entries of which topics a restore to a time omits, and why, in one clause."""
    count = sum(topic.entries for topic in topic_counts)
    shares = ", ".join(f"{topic.topic} {topic.entries:,}" for topic in topic_counts)
    return (
        f"{format_count(count, 'entry', 'entries')} up to {at} cannot be restored ({shares}): "
        f"{'it is' if count == 1 else 'they are'} in a group with later entries, or in a later group, and the journal "
        "is cut only between groups"
    )


def _explain_empty(plan: RestorePlan, last_txid: int) -> str:
    """Explain why the restored instance has no records, if its journal is cut before the first entry; else return
    ""."""
    if plan.end is None or last_txid:
        return ""
    if plan.entries_left_out.topic_counts:
        return ": the first group has entries after this time, and a group is restored completely or not at all"
    return ": all entries in the backup are later than this time"


def describe_choices(choices: Sequence[CutChoice]) -> str:
    """Describe the txids to restore to instead, in one clause."""
    words = []
    for number, choice in enumerate(choices, 1):
        names = ", ".join(choice.topics)
        first = "the first" if choice.entries == 1 else f"the first {choice.entries:,}"
        everything = "it" if choice.entries == 1 else "all of them"
        taken = everything if number == len(choices) else f"{first} of them ({names})"
        later = f" and {format_count(choice.later, 'later entry', 'later entries')}" if choice.later else ""
        words.append(f"--txid {choice.txid} restores {taken}{later}")
    return "; ".join(words)


def _build_report(plan: RestorePlan, done: RestoreResult | None, to: Path, seconds: float) -> RestoreReport:
    manifest = plan.manifest
    restored = []
    for one in plan.stores:
        shown = done.digests.get(one.topic.ref) if done is not None else None
        records: int | None
        versions: int | None
        if shown is not None:
            records, versions = shown[1], shown[2]
        elif done is None and not plan.whole:
            # The counts of the backup are those at its own instant.
            records = versions = None
        else:
            records, versions = one.topic.records, one.topic.versions
        source = f"backup {one.source.path.name}" if one.source is not None else "journal"
        restored.append(
            RestoredTopic(
                one.topic.topic, one.topic.message_type, source, records, versions, shown[0] if shown else None
            )
        )
    last = plan.end.txid if plan.end is not None else 0
    outside = tuple(sorted({file.path for file in manifest.files if file.path.startswith("outside/")}))
    note = f"instance of backup {plan.backup.path.name} at {format_time(plan.time)}"
    if plan.end is not None:
        note += f", which continues with txid {plan.above + 1} in a new history"
    if plan.beyond:
        note += (
            f"; the group with txid {last - plan.beyond} ends at txid {last} and is restored "
            f"completely; --txid {plan.before} excludes it"
        )
    if done is not None and restored and not any(topic.records for topic in restored):
        note += f"; it has no records{_explain_empty(plan, last)}"
    if outside:
        files = (
            "1 file with an absolute path is"
            if len(outside) == 1
            else f"{len(outside):,} files with absolute paths are"
        )
        note += f"; {files} in 'outside': correct the paths in the configuration before using it"
    if any(topic.records is None for topic in restored):
        note += "; its records are counted during the restore"
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
        records=_sum_counts(topic.records for topic in restored),
        versions=_sum_counts(topic.versions for topic in restored),
        bytes=done.bytes if done is not None else 0,
        seconds=round(seconds, 3),
        configuration=str(to / manifest.configuration),
        restored=tuple(restored),
        left_out=plan.left_out,
        entries_left_out=plan.entries_left_out.topic_counts,
        choices=plan.entries_left_out.choices,
        outside=outside,
        note=note,
    )


def _sum_counts(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)

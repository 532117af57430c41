"""replay: stores from journals. Stores that lag are brought up to date, missing or damaged ones rebuilt.

It can also compare only (:mod:`sowctl.engine.sources.verification`), or build stores in another directory. Only this
verb may replace an unreadable store. The damaged file is moved aside, never deleted (principle 5).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from sowctl.engine.fold.rebuild import RebuildResult, RecordCheckFactory, rebuild_stores
from sowctl.engine.keys.presentkeys import KeyCheck, PresentKeys
from sowctl.engine.options import ReplayOptions
from sowctl.engine.reports import ReplayReport
from sowctl.engine.sources.verification import verify_store
from sowctl.engine.topics.positions import (
    OTHER_HISTORY,
    build_definition,
    check_position,
    get_end_position,
    has_log,
    open_log,
    read_meta,
    refuse_other_keys,
    refuse_other_topic,
    refuse_unlogged_past,
)
from sowctl.engine.topics.storefile import refuse_other_file
from sowctl.engine.writing.rekey import rekey_topic
from sowctl.engine.writing.session import WriteSession, open_journal
from sowctl.errors import DamageError, RefusedError, SowError, StorageError, UsageError
from sowctl.journal.state import limit_topic_txid
from sowctl.remote.place import parse_place
from sowctl.store.check import find_damage
from sowctl.store.opening.access import DAMAGED_SUFFIX, REPLACED_SUFFIX
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.journal.writer import JournalWriter
    from sowctl.store.meta import Definition, StoreMeta
    from sowctl.values.topicref import TopicRef

DEFAULT_OPTIONS = ReplayOptions()


class StoreRebuild(Protocol):
    """Builds a topic's store from the journals and installs it: :func:`~sowctl.engine.fold.rebuild.rebuild_stores`."""

    def __call__(
        self,
        instance: Instance,
        log: Journal,
        topics: list[TopicConfig],
        *,
        until: int | None = None,
        at: int | None = None,
        writer: JournalWriter | None = None,
        check_of: RecordCheckFactory | None = None,
    ) -> list[RebuildResult]: ...


def replay_topics(
    instance: Instance,
    topics: Sequence[TopicConfig],
    options: ReplayOptions = DEFAULT_OPTIONS,
    *,
    fold: StoreRebuild = rebuild_stores,
    monotonic: Callable[[], float] = time.monotonic,
) -> list[ReplayReport]:
    """Bring the stores of ``topics`` up to date with the journals; topics that no journal records are skipped.

    ``options.into``: build stores there and leave the configured ones unchanged; ``verify_store``: only compare.
    ``until`` requires one of the two. ``fold`` builds stores. Raises UsageError ``SOW-RPL-001``, DamageError if a
    journal is damaged, RefusedError ``SOW-RPL-002`` if a rebuild would lose records that are no longer in the journals,
    ``SOW-RPL-010`` if records have keys that their topic no longer computes.
    """
    _check_options(options)
    reports = []
    directory = parse_place(options.journal) if options.journal is not None else None
    with ExitStack() as stack:
        # The end of the journal is verified first: a rebuild from one that lost its end would remove records.
        log = stack.enter_context(open_log(instance, directory=directory, whole=True))
        writer: JournalWriter | None = None
        for topic in topics:
            started = monotonic()
            if not topic.journalled:
                report = ReplayReport.for_topic(topic, "skipped", note="the topic has no journal")
            elif options.verify:
                report = verify_store(instance, log, topic, options, partial(KeyCheck, instance))
            elif options.into is not None:
                report = _replay_aside(instance, log, topic, options, Path(options.into), fold)
            elif options.dry_run:
                plan = _rekey_topic if options.rekey else _plan_replay
                report = plan(instance, log, topic, options)
            else:
                # Opened for writing only when a store is changed; a journal named by its directory is only read.
                if writer is None and directory is None:
                    writer = open_journal(instance)
                    stack.callback(writer.close)
                if options.rekey:
                    report = _rekey_topic(instance, log, topic, options, writer)
                else:
                    report = _replay_topic(instance, log, topic, options, writer, fold)
                if directory is not None and topic.file is not None:
                    _accept_loss(instance, topic)
            report.seconds = monotonic() - started
            reports.append(report)
    return reports


def _check_options(options: ReplayOptions) -> None:
    bounded = options.until_txid is not None or options.until_time is not None
    if bounded and options.into is None and not options.verify:
        raise UsageError(
            "SOW-RPL-001",
            "a replay up to an earlier position would remove later records from the live stores",
            hint="add --into DIR to build the stores in another directory",
        )
    if options.verify and options.into is not None:
        raise UsageError("SOW-RPL-003", "--verify compares stores, --into builds others: use only one of them")
    if options.rekey and (options.verify or options.into is not None or options.journal is not None):
        raise UsageError(
            "SOW-RPL-014",
            "--rekey writes to the journal of the configuration and rebuilds its stores",
            hint="remove --verify, --into and --journal; --dry-run shows what would be written",
        )


def _replay_topic(
    instance: Instance,
    log: Journal,
    topic: TopicConfig,
    options: ReplayOptions,
    writer: JournalWriter | None,
    fold: StoreRebuild,
) -> ReplayReport:
    if topic.file is None:
        return ReplayReport.for_topic(topic, "skipped", note="the topic is transient: it has no file")
    refuse_other_file(instance, topic, force=options.force)
    needed = "rebuild" if options.rebuild else find_store_need(instance, log, topic)
    if needed == "current":
        meta = read_meta(topic.file, instance)
        return ReplayReport.for_topic(
            topic, "current", records=meta.records, versions=meta.versions, applied=meta.applied
        )
    if needed == "behind" and writer is not None:
        return _catch_up(instance, topic, writer)
    ref = topic.ref
    # Files pruned while the store is built would be missing in it, and the old store would be gone.
    log.require_files_after()
    covered = log.covers_topic(ref)
    # A store that has applied entries which were later cut out of the journal still has them.
    lacking = needed != "missing" and log.lacks_entries(ref)
    # A readable store shows what a rebuild would lose; a damaged one does not, and is kept under another name below.
    if topic.file.exists() and needed == "rebuild" and not options.force:
        with suppress(DamageError):
            meta = read_meta(topic.file, instance)
            refuse_other_topic(topic, meta)
            refuse_other_keys(topic, _build_definition(instance, topic), meta.definition)
            refuse_unlogged_past(topic, meta, log)
    # The file has records that the journals no longer have.
    if topic.file.exists() and needed in ("rebuild", "damaged") and (lacking or not covered) and not options.force:
        raise _build_loss_error(topic, log, lacking=lacking, damaged=needed == "damaged")
    topic.file.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    # Only a store that can be rebuilt completely from the journals is replaced without keeping a copy.
    keep = needed in ("damaged", "other history") or lacking or not covered or options.force
    moved = _link_aside(instance, topic.file) if keep else None
    try:
        built = fold(instance, log, [topic], writer=writer, check_of=partial(KeyCheck, instance))[0]
    except BaseException:
        # The current file still has its own name: the second one is not needed.
        if moved is not None and topic.file.exists():
            moved.unlink()
        raise
    note = None if covered else _describe_missing_files(log)
    if needed == "other history":
        _put_chains_aside(instance, topic)
        note = "; ".join(filter(None, ("the previous store followed another copy of this journal", note)))
    kept = str(moved) if moved is not None else None
    return built.build_report("rebuilt", moved=kept, note=note, incomplete=not covered)


def _accept_loss(instance: Instance, topic: TopicConfig) -> None:
    """Accept a store that was rebuilt from the rest of a journal that was given up (``sow-journal(5)``)."""
    assert instance.log is not None and instance.config is not None and topic.file is not None
    # While the configured journal has a file, only the journal determines what was acknowledged.
    if not has_log(instance):
        ref = topic.ref
        applied = read_meta(topic.file, instance).applied
        limit_topic_txid(instance.log.directory, instance.config.name, ref, applied, instance.seam)


def _describe_missing_files(log: Journal) -> str:
    """Describe the loss of a store built without older files; without any file nothing more is lost (C48)."""
    return f"the journals begin at txid {log.first_txid}: earlier records cannot be rebuilt"


def find_store_need(instance: Instance, log: Journal, topic: TopicConfig) -> str:
    """Return the need of a store: ``missing``, ``damaged``, ``behind``, ``other history``, or ``current`` for none.

    A store that follows another copy of the journal is rebuilt from this one and kept beside the new one. Raises
    DamageError if the journal is damaged, or does not have the position of an intact store, and RefusedError for
    another topic's store: a rebuild of these would lose their content.
    """
    assert topic.file is not None
    if not topic.file.exists():
        return "missing"
    meta = _verify_store(instance, topic.file)
    if meta is None:
        return "damaged"
    refuse_other_topic(topic, meta)
    refuse_other_keys(topic, _build_definition(instance, topic), meta.definition)
    ref = topic.ref
    last = log.find_topic_state(ref).last_txid
    if not _is_of_journal(meta, log, ref, topic.file):
        return "other history"
    return "current" if meta.lineage == log.lineage and last <= meta.applied else "behind"


def _verify_store(instance: Instance, path: Path) -> StoreMeta | None:
    """Check all of a store and return its meta record; None if it is damaged."""
    try:
        # A newer format is not damage: this raises the error for it.
        meta = read_meta(path, instance)
    except DamageError:
        return None
    # The same checks as sowctl check, whose findings name replay as the command that repairs.
    on_read = instance.build_watch("records")
    return meta if find_damage(path, seam=instance.seam, now=instance.now, on_read=on_read) is None else None


def _catch_up(instance: Instance, topic: TopicConfig, journal: JournalWriter) -> ReplayReport:
    with WriteSession(instance, journal=journal) as session:
        writer = session.open_store(topic)
        entries = len(writer.memtable)
        # A replay makes the store equal to the journal; expired records are removed by ``expire`` and by writers.
        writer.remove_expired_at = None
        with session.hold_batch_locks([writer], merge_first=True):
            writer.flush_forced(get_end_position(journal))
            meta = writer.store.read_meta()
    counts = {"records": meta.records, "versions": meta.versions, "applied": meta.applied}
    return ReplayReport.for_topic(topic, "caught up", entries=entries, **counts)


def _build_definition(instance: Instance, topic: TopicConfig) -> Definition:
    assert instance.config is not None
    return build_definition(instance.config.name, topic)


def _rekey_topic(
    instance: Instance,
    log: Journal,
    topic: TopicConfig,
    options: ReplayOptions,
    writer: JournalWriter | None = None,
) -> ReplayReport:
    """Give the records of a topic the keys that it computes now, then rebuild its store; ``writer`` None: only report
    it.

    If the process dies after the group was written and before the store was rebuilt, no harm is done: readers see store
    and group, writers are refused, and the next attempt finds every key correct and rebuilds the store.
    """
    refuse_other_file(instance, topic, force=options.force)
    ref = topic.ref
    # Files pruned while the store is built would be missing in it, and the old store would be gone.
    log.require_files_after()
    covered = log.covers_topic(ref)
    use_store = False
    present = topic.file is not None and topic.file.exists()
    meta = _verify_store(instance, topic.file) if topic.file is not None and present else None
    if topic.file is not None and meta is not None:
        refuse_other_topic(topic, meta)
        if not options.force:
            refuse_unlogged_past(topic, meta, log)
        # A store of another copy of the journal must not determine which records exist: its entries are not in this
        # journal.
        use_store = _is_of_journal(meta, log, ref, topic.file)
    # The group has every record, but no versions: those that only the store has are lost.
    if not covered and not options.force and topic.file is not None and (topic.history is not None or not use_store):
        raise _build_loss_error(topic, log)
    done = rekey_topic(instance, log, topic, writer, use_store=use_store, whole=use_store and not covered)
    note = (
        f"{format_count(done.deleted, 'old key')} deleted, {format_count(done.published, 'record')} published with "
        f"{'its new key' if done.published == 1 else 'their new keys'}"
    )
    if done.merged:
        note += f"; {format_count(done.merged, 'record')} replaced by later ones with the same key"
    if writer is None:
        return ReplayReport.for_topic(topic, "re-keyed", entries=done.entry_count, note=note, dry_run=True)
    if topic.file is None:
        return ReplayReport.for_topic(topic, "re-keyed", entries=done.entry_count, note=note)
    if (
        not done.entry_count
        and meta is not None
        and use_store
        and meta.definition == _build_definition(instance, topic)
    ):
        return _replay_topic(instance, log, topic, options, writer, rebuild_stores)
    topic.file.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    moved = _link_aside(instance, topic.file)
    built = rebuild_stores(instance, log, [topic], writer=writer, check_of=partial(KeyCheck, instance))[0]
    return built.build_report("re-keyed", moved=str(moved) if moved is not None else None, note=note)


def _is_of_journal(meta: StoreMeta, log: Journal, ref: TopicRef, place: Path) -> bool:
    """Return whether a store belongs to this journal and not to another copy of it. Raises DamageError as
    check_position.
    """
    try:
        check_position(meta, log, ref, place)
    except DamageError as error:
        if error.code != OTHER_HISTORY:
            raise
        return False
    return True


def _build_loss_error(
    topic: TopicConfig, log: Journal, *, lacking: bool = False, damaged: bool = False
) -> RefusedError:
    why = (
        f"a repair removed damaged entries of topic {topic.name!r} from the journals"
        if lacking
        else f"the journals begin after the first entry of topic {topic.name!r} (searched {log.search_locations})"
    )
    hint = "--force rebuilds from the remaining entries, and keeps the current file beside the new one"
    if damaged:
        hint = f"sowctl store repair {topic.name} saves the intact records, too; {hint}"
    return RefusedError("SOW-RPL-002", f"{why}: a rebuild would lose records", place=str(topic.file), hint=hint)


def _plan_replay(instance: Instance, log: Journal, topic: TopicConfig, options: ReplayOptions) -> ReplayReport:
    if topic.file is None:
        return ReplayReport.for_topic(topic, "skipped", note="the topic is transient: it has no file", dry_run=True)
    refuse_other_file(instance, topic, force=options.force)
    needed = "rebuild" if options.rebuild else find_store_need(instance, log, topic)
    actions = {"current": "current", "behind": "caught up"}
    ref = topic.ref
    incomplete = needed not in actions and not log.covers_topic(ref)
    note = f"{needed}; {_describe_missing_files(log)}" if incomplete else needed
    applied = log.find_topic_state(ref).last_txid
    return ReplayReport.for_topic(
        topic, actions.get(needed, "rebuilt"), applied=applied, note=note, dry_run=True, incomplete=incomplete
    )


def _replay_aside(
    instance: Instance, log: Journal, topic: TopicConfig, options: ReplayOptions, directory: Path, fold: StoreRebuild
) -> ReplayReport:
    name = topic.file.name if topic.file is not None else f"{topic.name.replace('/', '%2F')}.{topic.message_type}.sow"
    path = directory / name
    refuse_other_file(instance, replace(topic, file=path))
    if path.exists() and not options.force:
        raise RefusedError("SOW-RPL-004", "the file exists", place=str(path), hint="--force replaces it")
    if options.dry_run:
        return ReplayReport.for_topic(replace(topic, file=path), "rebuilt", dry_run=True)
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    moved = replace(topic, file=path)
    built = fold(
        instance, log, [moved], until=options.until_txid, at=options.until_time, check_of=partial(KeyCheck, instance)
    )[0]
    covered = log.covers_topic(topic.ref)
    return built.build_report("rebuilt", note=None if covered else _describe_missing_files(log), incomplete=not covered)


def _link_aside(instance: Instance, path: Path) -> Path | None:
    """Link a store's file to an unused second name, which keeps it when a new store takes its path; return the name.

    The suffix shows the state of the file: ``.damaged-N``, or ``.replaced-N`` for an intact one.
    """
    if not path.exists():
        return None
    target = _find_free_name(path, DAMAGED_SUFFIX if _verify_store(instance, path) is None else REPLACED_SUFFIX)
    try:
        # A link and no rename: at every moment the store's own name refers to a file, the old or the new one.
        instance.seam.call("file.link", os.link, path, target, follow_symlinks=True)
    except OSError as error:
        raise StorageError(
            "SOW-RPL-006",
            f"cannot rename the current file: {error.strerror or error}",
            place=str(path),
            hint="nothing was changed; move the file away manually, then run the replay again",
        ) from error
    return target


def _put_chains_aside(instance: Instance, topic: TopicConfig) -> None:
    """Move away the key chains of a store of another history: they are rebuilt from this journal."""
    if topic.key_mode != "module":
        return
    with suppress(SowError):  # a missing generator has no such file
        chains = PresentKeys(instance, topic).maker.chains
        if chains is not None and chains.path is not None and chains.path.exists():
            instance.seam.call("file.rename", os.rename, chains.path, _find_free_name(chains.path, REPLACED_SUFFIX))


def _find_free_name(path: Path, ending: str) -> Path:
    number = 1
    while (target := path.with_name(f"{path.name}{ending}{number}")).exists():
        number += 1
    return target

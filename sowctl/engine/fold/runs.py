"""Sorted runs of a store: the contents of a writer's full memtables, until store and runs are merged.

A run has the journal's entries of its topic between two txids, newest per key (with History all), so its loss does no
harm: a run that is missing, damaged, or of another journal or definition is not used, and its entries are folded from
the journal. Writers flush, install and remove runs under the journal's lock; readers use the runs that continue a
store's position without a gap. Specified in ``sow-run(5)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sowctl.engine.fold import limits
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.fold.merge_layers import Layer, MemoryLayer, sort_all_changes
from sowctl.engine.topics.positions import check_position, open_log
from sowctl.store.meta import AppliedPosition, StoreMeta
from sowctl.store.sortedrun import (
    EVERY_CHANGE_KIND,
    NEWEST_CHANGES_KIND,
    BadRun,
    Changes,
    SortedRun,
    build_runs_directory,
    count_distinct_keys,
    find_run_files,
    is_being_written,
    write_run,
)

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.store.env import Store
    from sowctl.values.topicref import TopicRef

MAX_FIND_ATTEMPTS = 3
PART_CHANGES = 10_000
"""Changes written in one call."""
COMPACTION_WINDOW_CHANGES = 1000
"""Changes of each run that are merged in one step, so that they stay in the processor's cache."""
Refold = Callable[[SortedRun], Layer]
"""Folds the journal's entries of a run again."""


def find_runs(
    instance: Instance,
    store: Path,
    meta: StoreMeta,
    log: Journal,
    after: int,
    until: int | None = None,
    *,
    every: bool = False,
) -> list[SortedRun]:
    """Return the runs that continue from txid ``after``, if the journal continues the store with ``meta``; may be
    empty.

    ``every``: runs with every change, which a topic with History needs, otherwise runs with the newest ones. ``until``:
    only runs that end at or before this txid.
    """
    last = min(log.read_last_txid(), log.read_last_txid() if until is None else until)
    found: list[SortedRun] = []
    for _ in range(MAX_FIND_ATTEMPTS):
        there = find_run_files(store)
        try:
            while run := _find_next_run(instance, there, meta, log, after, last, every):
                found.append(run)
                after = run.last_txid
            break
        except FileNotFoundError:
            # A writer has compacted the run with others, or merged it into the store: look for files again.
            continue
    return found


def _find_next_run(
    instance: Instance,
    there: dict[tuple[int, int], Path],
    meta: StoreMeta,
    log: Journal,
    after: int,
    last: int,
    every: bool,
) -> SortedRun | None:
    """Return the run from ``after`` with the highest end, at most ``last``.

    Raises FileNotFoundError if it was removed.
    """
    # The longest run first: a compacted run and the runs that it replaces coexist for a moment.
    for upto in sorted((upto for base, upto in there if base == after and after < upto <= last), reverse=True):
        path = there[after, upto]
        try:
            run = SortedRun(path)
        except BadRun as problem:
            if not path.exists():
                raise FileNotFoundError(path) from None
            report_unused_run(instance, path, str(problem))
            continue
        # The topic may have lost or gained History since the run was written.
        if (run.base, run.last_txid, run.every) == (after, upto, every) and _belongs_to_store(run, meta, log):
            return run
    return None


def _belongs_to_store(run: SortedRun, meta: StoreMeta, log: Journal) -> bool:
    """Return whether a run belongs to this store's definition and to this journal, and not to another copy of it."""
    state = run.state
    if state.definition != meta.definition or state.lineage != log.lineage or state.block is None:
        return False
    # Two copies of a journal assign the same txids to different entries: the block distinguishes them.
    return log.has_block(state.block, state.applied)


def report_unused_run(instance: Instance, path: Path, reason: str) -> None:
    """Report, once per command, that a file is ignored."""
    instance.notify_once(
        f"run {path}", f"the sorted run {path} is ignored ({reason}); its entries are read from the journal"
    )


def build_refold(instance: Instance, topic: TopicConfig, store: Path, meta: StoreMeta) -> Refold:
    """Build the function that folds the entries of a damaged run of ``topic`` again, for a store with ``meta``.

    It raises DamageError if the journal no longer has them.
    """

    def again(run: SortedRun) -> Layer:
        report_unused_run(instance, run.path, "a damaged value")
        ref = topic.ref
        memtable = Memtable(history=run.every)
        with open_log(instance, acknowledged=run.last_txid) as log:
            # Proven as for a store whose position is the start of the run.
            check_position(meta.replace_parts(lineage=log.lineage, applied=run.base, block=None), log, ref, store)
            log.require_proven_after(run.base)
            for block in log.iter_blocks(after=run.base, until=run.last_txid, topic=ref):
                memtable.fold_block(block, ref, run.base, run.last_txid)
        return MemoryLayer(memtable.current_changes, memtable.changes)

    return again


def extend_memtable(
    memtable: Memtable,
    log: Journal,
    ref: TopicRef,
    let_go: Callable[[AppliedPosition], None],
    until: int | None = None,
) -> None:
    """Fold the journal's entries after the runs of a memtable, up to the txid ``until``.

    When memory is full, calls ``let_go`` with the position reached, which writes the changes to a run. So memory is
    bounded even if a process has died after the sync of a very large delete.
    """
    after = memtable.memory_start_txid
    keys, size = limits.compute_run_limits()
    for block in log.iter_blocks(after=after, until=until, topic=ref):
        memtable.fold_block(block, ref, after, until)
        # Never after a partly folded block: a run must have all entries up to the end of its last block.
        if (memtable.memory_change_count >= keys or memtable.held_bytes >= size) and (
            until is None or block.last_txid <= until
        ):
            let_go(AppliedPosition(log.lineage, block.last_txid, block.identity))


def flush_to_run(
    instance: Instance,
    topic: TopicConfig,
    store: Store,
    memtable: Memtable,
    position: AppliedPosition,
) -> None:
    """Write the changes of ``memtable`` in memory to a run, up to ``position``, the end of a block of the journal.

    The journal's lock is held. Raises StorageError, with the memtable unchanged.
    """
    path = Path(store.path)
    _write_memtable_run(instance, topic, (path, store.read_meta()), path, memtable, position)


def flush_unnamed_run(
    instance: Instance,
    topic: TopicConfig,
    store: Path,
    meta: StoreMeta,
    memtable: Memtable,
    position: AppliedPosition,
) -> None:
    """As :func:`flush_to_run`, for a reader of a store with ``meta``: the run is an unnamed temporary file, because
    readers write nothing to the store's directory."""
    import tempfile  # with shutil and random; most readers have no such tail

    with tempfile.TemporaryDirectory(prefix="sowctl-") as place:
        aside = Path(place) / store.name
        aside.touch(mode=0o600)
        # It is open when its directory is removed, and stays readable as long as the memtable uses it.
        _write_memtable_run(instance, topic, (store, meta), aside, memtable, position)


def _write_memtable_run(
    instance: Instance,
    topic: TopicConfig,
    origin: tuple[Path, StoreMeta],
    beside: Path,
    memtable: Memtable,
    position: AppliedPosition,
) -> None:
    path, meta = origin
    lineage, upto, block = position
    state = StoreMeta(meta.definition, lineage=lineage, applied=upto, last_time=memtable.last_time, block=block)
    kind = NEWEST_CHANGES_KIND if memtable.changes is None else EVERY_CHANGE_KIND
    if memtable.changes is None:
        count, parts = memtable.sort_memory_changes(PART_CHANGES)
    else:
        count, parts = (
            len(memtable.changes),
            cast("Iterator[Changes]", sort_all_changes(memtable.changes, PART_CHANGES)),
        )
    written = write_run(beside, state, memtable.memory_start_txid, count, parts, instance.seam, kind)
    # Opened as by a reader, which checks it: changes removed from memory must be readable.
    memtable.append_run(SortedRun(written), build_refold(instance, topic, path, meta))
    # From now on every batch is looked up in all runs.
    for run in memtable.runs:
        run.arrays = True


def compact_runs(instance: Instance, topic: TopicConfig, store: Store, runs: Sequence[SortedRun]) -> SortedRun:
    """Compact several consecutive runs into one. No lock is needed: runs do not change.

    Raises StorageError.
    """
    path, last = Path(store.path), runs[-1].state
    again = build_refold(instance, topic, path, store.read_meta())
    every = runs[0].every
    memtable = Memtable(history=every, base=runs[0].base, runs=runs, again=again)
    parts = _read_all_parts(memtable) if every else _read_newest_parts(memtable)
    # The count must be exact before anything is written: the offsets of the columns depend on it.
    count = len(memtable) if every else count_distinct_keys(runs)
    latest = max(run.state.last_time for run in runs)
    kind = EVERY_CHANGE_KIND if every else NEWEST_CHANGES_KIND
    state = last.replace_parts(last_time=latest)
    joined = SortedRun(write_run(path, state, runs[0].base, count, parts, instance.seam, kind))
    joined.arrays = True
    return joined


def _read_newest_parts(memtable: Memtable) -> Iterator[Changes]:
    for _, window in memtable.select_newest(COMPACTION_WINDOW_CHANGES).read_upto(None):
        keys = sorted(window)
        yield keys, [window[key] for key in keys]


def _read_all_parts(memtable: Memtable) -> Iterator[Changes]:
    for _, window in memtable.select_all(COMPACTION_WINDOW_CHANGES).read_upto(None):
        pairs = [(key, value) for key in sorted(window) for value in window[key]]
        yield [key for key, _ in pairs], [value for _, value in pairs]


def replace_runs(memtable: Memtable, runs: Sequence[SortedRun], joined: SortedRun) -> None:
    """Replace ``runs`` by the run compacted from them, and remove their files; the journal's lock is held."""
    if memtable.install_run(runs, joined):
        for run in runs:
            with suppress(OSError):
                run.path.unlink()


def remove_runs(store: Path, meta: StoreMeta, lineage: bytes) -> None:
    """Remove runs that a store at or after the position of ``meta`` does not need, and unfinished ones.

    The journal's lock is held. A run that continues the store stays, and so does one that is being written.
    """
    directory = build_runs_directory(store)
    try:
        paths = list(directory.iterdir())
    except OSError:
        return  # the usual case: there are none
    there = {path: upto for (_, upto), path in find_run_files(store).items()}
    for path in paths:
        if path not in there and is_being_written(path):
            continue
        if there.get(path, 0) > meta.applied:
            with suppress(BadRun):
                state = SortedRun(path).state
                if (state.lineage, state.definition) == (lineage, meta.definition):
                    continue
        with suppress(OSError):
            path.unlink()
    with suppress(OSError):
        directory.rmdir()

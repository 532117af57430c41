"""A conflated topic as a source: its messages at an instant.

These are messages of its source, with their txids, times and keys. Expiry in the source is a change like any other, and
takes effect with the next output. With a journal of the source, a state depends only on the journal and the instant,
not on when any command ran (``behaviour`` 5.3, 11.42 to 11.46): the current state is read from the stored state, which
is advanced to the clock first, and past states are computed. Without a journal, the last stored state is used.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.config.derived_entries import ConflatedTopic
from sowctl.engine.fold.tempstore import open_temporary_topic
from sowctl.engine.sources.current import CurrentSource, open_current_source, open_file_source
from sowctl.engine.topics.derived_topics import build_derived_topic
from sowctl.engine.topics.log_places import LogPlace, note_later_entries
from sowctl.engine.topics.positions import build_definition
from sowctl.engine.views.cache import UNWRITABLE_ERRORS, find_cache_path, open_if_current
from sowctl.engine.views.conflation import conflation_store
from sowctl.engine.views.conflation.conflation_store import ConflationStatus, ConflationStore
from sowctl.engine.views.conflation.outputs import TopicOutputs
from sowctl.engine.views.conflation.source_changes import build_unrecorded_error, iterate_conflated_changes
from sowctl.engine.views.conflation.state_tables import is_recorded, read_state
from sowctl.engine.views.conflation.timeline import KeyChange, LogStretch
from sowctl.engine.views.instant import run_at_instant
from sowctl.errors import MissingError, SowError
from sowctl.store.builder import build_store
from sowctl.store.limits import STORE_LIMITS
from sowctl.values.times import find_last_txid, format_time

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.config.model import OtherEntry, TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.views.instant import ViewInstant


def open_entry(moment: ViewInstant, entry: OtherEntry) -> Source:
    """Open the conflated topic as of a moment.

    Raises the errors of reading the journal; without a journal, UsageError ``SOW-VIW-002`` if no state is stored, and
    MissingError ``SOW-ENG-050`` for an instant before the stored state.
    """
    assert isinstance(entry, ConflatedTopic)
    path = find_cache_path(moment.instance, entry)
    if not is_recorded(moment.instance, entry):
        return _open_last_kept(moment, entry, path)
    source = _open_cached(moment, entry, path) if path is not None else None
    return source if source is not None else _open_computed(moment, entry)


def read_current_status(instance: Instance, entry: OtherEntry) -> ConflationStatus:
    """Read the current status of the stored state of a conflated topic, without advancing it."""
    assert isinstance(entry, ConflatedTopic)
    return run_at_instant(instance, entry, None, open_entry, lambda moment: conflation_store.read_status(moment, entry))


def _open_last_kept(moment: ViewInstant, entry: ConflatedTopic, path: Path | None) -> Source:
    if path is None or not path.exists():
        raise build_unrecorded_error(entry, entry.underlying)
    source = open_current_source(moment.instance, _build_kept_topic(moment, entry, path), now=moment.now)
    kept = read_state(source.snapshot)
    if kept is not None and (moment.at is None or moment.at >= kept.clock):
        if 0 < kept.due <= moment.now or moment.now - kept.clock > entry.interval_us:
            words = f"{entry.name} shows its state of {format_time(kept.clock)}: its source has no journal"
            hint = f"sowctl conflate {entry.name} advances it to the clock"
            moment.instance.notify_once(f"age of {entry.name}", f"{words}; {hint}")
        return source
    source.close()
    if kept is None:
        raise build_unrecorded_error(entry, entry.underlying)
    raise MissingError(
        "SOW-ENG-050",
        f"the state of {entry.name!r} at that instant is unknown: its source has no journal",
        hint=f"the earliest available instant is {format_time(kept.clock)}",
        topic=entry.name,
        first_instant=format_time(kept.clock),
    )


def _build_kept_topic(moment: ViewInstant, entry: ConflatedTopic, path: Path) -> TopicConfig:
    assert moment.instance.config is not None
    return replace(build_derived_topic(moment.instance.config, entry), file=path)


def _open_cached(moment: ViewInstant, entry: ConflatedTopic, path: Path) -> CurrentSource | None:
    """Open the stored state, advanced to the present; None for a past state, if no state can be stored, or if another
    process has stored a later one."""
    if find_last_txid(moment.at) is not None:
        # The stored state may include entries after this txid with earlier times.
        return None
    keeper = ConflationStore(moment, entry, path)
    if not moment.fresh and (source := _open_if_current(moment, entry, keeper, path)) is not None:
        return source
    if moment.at is not None:
        return None
    try:
        keeper.advance()
    except UNWRITABLE_ERRORS as problem:
        words = problem.message if isinstance(problem, SowError) else problem.strerror or str(problem)
        moment.instance.notify_once(
            f"state of {entry.name}", f"{entry.name} is computed without a saved state: {words}"
        )
        return None
    return _open_if_current(moment, entry, keeper, path)


def _open_if_current(
    moment: ViewInstant, entry: ConflatedTopic, keeper: ConflationStore, path: Path
) -> CurrentSource | None:
    """Open the stored state if it is that of the conflated topic at the moment, otherwise return None."""
    topic = _build_kept_topic(moment, entry, path)
    can_be_made = moment.at is None and is_recorded(moment.instance, entry)
    return open_if_current(
        moment, topic, lambda source: keeper.is_current(read_state(source.snapshot)), can_be_made=can_be_made
    )


def _open_computed(moment: ViewInstant, entry: ConflatedTopic) -> Source:
    """Compute the state at the moment, from the beginning of the journal, into a temporary store."""
    instance = moment.instance
    assert instance.config is not None
    # An instant in the future means the present.
    at = moment.now if moment.at is None else min(moment.at, moment.now)
    last = find_last_txid(at)
    if last is not None:
        note_later_entries(instance, entry.name, LogPlace(last, at))
    shown: dict[bytes, KeyChange] = {}
    for change in iterate_conflated_changes(instance, entry, LogStretch(0, moment.until if last is None else last, at)):
        if change.value is None:
            del shown[change.key]
        else:
            shown[change.key] = change
    with ExitStack() as stack:
        then = stack.enter_context(open_temporary_topic(build_derived_topic(instance.config, entry), "conflated"))
        assert then.file is not None
        definition = build_definition(instance.config.name, then)
        outputs = TopicOutputs(instance, entry)
        # Without a creation time, so that the digest alone identifies the state, also across processes.
        with build_store(then.file, definition, seam=instance.seam, now=0) as builder:
            keys = sorted(shown)
            for start in range(0, len(keys), STORE_LIMITS.read_batch_records):
                some = keys[start : start + STORE_LIMITS.read_batch_records]
                builder.append_records(some, [outputs.build_value(shown[key]) for key in some])
            builder.flush()
            builder.install(wait=instance.lock_wait)
        base = stack.enter_context(open_file_source(instance, then.file))
        return CurrentSource(stack.pop_all(), base.snapshot, None, then, moment.now)

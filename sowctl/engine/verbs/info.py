"""info: stores, their sizes, positions and lag, without reading the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.config.model import OtherEntry
from sowctl.engine.fold.flush_plan import build_figures, describe_flush, plan_final_flush
from sowctl.engine.reports import TopicInfo
from sowctl.engine.sources.current import CurrentSource, open_current_source, open_file_source
from sowctl.engine.sources.opener import open_source
from sowctl.engine.topics.targets import WITHOUT_SOW, Target, resolve_targets, split_target
from sowctl.errors import DamageError, MissingError, SowError
from sowctl.memo.directory import MemoDirectory
from sowctl.store.builder import is_being_built
from sowctl.store.codec import extract_payloads, read_stamps
from sowctl.store.integrity import DIGEST_MODULUS
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.sortedrun import build_runs_directory
from sowctl.values.display import format_count
from sowctl.values.units import INTERVAL_NANOSECONDS, format_interval

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.block import TopicState
    from sowctl.store.meta import StoreMeta
    from sowctl.values.topicref import TopicRef


def list_topic_info(
    instance: Instance, targets: Sequence[Target] | None = None, problems: list[SowError] | None = None
) -> list[TopicInfo]:
    """Return the rows for ``targets``, or for all entries of the configuration, in its order.

    A store that cannot be read has a row with its state; the error is added to ``problems``.
    """
    problems = [] if problems is None else problems
    if targets is None:
        rows = []
        for entry in instance.config.sow if instance.config is not None else ():
            if isinstance(entry, OtherEntry):
                rows.append(_describe_derived(instance, entry, problems))
            else:
                rows.append(_describe_topic(instance, entry, problems))
        return rows + _list_log_only(instance)
    return [_describe_target(instance, target, problems) for target in targets]


def find_topic_info(instance: Instance, text: str, problems: list[SowError] | None = None) -> list[TopicInfo]:
    """Return the rows for the target ``text``. Raises as ``resolve_targets``, but not for a topic without a SOW."""
    try:
        return list_topic_info(instance, resolve_targets(instance, text, derived=True), problems)
    except MissingError as error:
        if error.code != WITHOUT_SOW:
            raise
        name, kind = split_target(text)
        return [row for row in _list_log_only(instance) if row.topic == name and kind in (None, row.message_type)]


def _describe_target(instance: Instance, target: Target, problems: list[SowError]) -> TopicInfo:
    if target.topic is not None:
        derived = target.topic.derived
        return (
            _describe_topic(instance, target.topic, problems)
            if derived is None
            else _describe_derived(instance, derived, problems)
        )
    assert target.path is not None
    with closing(open_file_source(instance, target.path)) as source:
        meta = source.meta
        row = TopicInfo(meta.definition.topic, meta.definition.message_type, "file", "ok")
        row.keys, row.key_mode = meta.definition.key_fields, meta.definition.key_mode
        row.journalled = meta.has_journal
        _fill_from_source(row, source, target.path)
        return row


def _describe_derived(instance: Instance, entry: OtherEntry, problems: list[SowError]) -> TopicInfo:
    """Describe a view, conflated topic or queue: the content and lag of its cache or state, without changing it."""
    row = TopicInfo(entry.name, entry.message_type, entry.kind, "defined")
    # The expression language is loaded anyway: derived keys are parsed from texts.
    _fill_keys(instance, entry, row)
    if entry.kind == "ConflatedTopic":
        _fill_conflated(instance, entry, row, problems)
        return row
    if entry.kind != "View":
        _fill_queue(instance, entry, row, problems)
        return row
    from sowctl.engine.views.view import plan_refresh

    try:
        found = plan_refresh(instance, entry)
    except SowError as error:
        row.state, row.note = "unreadable", error.message
        problems.append(error)
        return row
    row.state = {"use": "current"}.get(found.way, "no cache" if found.state is None else "behind")
    row.file_bytes, row.lag = found.size, found.changed or 0
    _fill_counts(row, found.meta)
    if found.state is not None:
        row.path, row.last_update = str(found.path), found.state.refreshed
        row.applied = row.last_txid = max((one.last_txid for one in found.state.positions), default=0)
        row.index_bytes = MemoDirectory(found.path).count_bytes() if found.path is not None else 0
    # If the sources do not show the number of changes, the lag is unknown; then the note has the reason.
    row.note = found.why if found.changed is None else None
    return row


def _fill_conflated(instance: Instance, entry: OtherEntry, row: TopicInfo, problems: list[SowError]) -> None:
    """Fill in the saved state of a conflated topic, and its lag behind the log, without advancing it."""
    from sowctl.engine.views.conflation.conflated_source import read_current_status

    try:
        found = read_current_status(instance, entry)
    except SowError as error:
        row.state, row.note = "unreadable", error.message
        problems.append(error)
        return
    if found.kept is None:
        row.state = "no state"
        return
    # Without a journal the state is the one saved last, however old it is.
    row.state = "current" if found.is_current else "behind" if found.kept.lineage else "kept"
    row.file_bytes, row.lag = found.size, found.behind
    _fill_counts(row, found.meta)
    row.path, row.last_update = str(found.path), found.kept.clock
    row.applied = row.last_txid = found.kept.applied
    row.note = f"{format_count(found.pending, 'message is', 'messages are')} pending" if found.pending else None


def _fill_queue(instance: Instance, entry: OtherEntry, row: TopicInfo, problems: list[SowError]) -> None:
    """Fill in the counters of a queue as of its last change, without reading the journal up to its end."""
    from sowctl.config.derived_entries import Queue
    from sowctl.engine.queues.summary import read_queue_summary

    assert isinstance(entry, Queue)
    try:
        found = read_queue_summary(instance, entry)
    except SowError as error:
        row.state, row.note = "unreadable", error.message
        problems.append(error)
        return
    row.state, row.records, row.lag, row.applied = found.state, found.pending, found.behind, found.applied
    row.leased, row.age_seconds, row.file_bytes = found.leased, found.age_seconds, found.size
    row.path = None if found.path is None else str(found.path)
    row.note = f"{format_count(found.dead, 'message is', 'messages are')} dead" if found.dead else None


def _fill_keys(instance: Instance, entry: OtherEntry, row: TopicInfo) -> None:
    """Fill in the keys of a derived topic; nothing if its definition is invalid, which is reported elsewhere."""
    from sowctl.engine.topics.derived_topics import require_derived_topic

    assert instance.config is not None
    with suppress(SowError):
        topic = require_derived_topic(instance.config, entry)
        row.keys, row.key_mode = tuple(str(path) for path in topic.keys), topic.key_mode


def _fill_counts(row: TopicInfo, meta: StoreMeta | None) -> None:
    """Fill in the counts of messages from the store of a cache."""
    if meta is not None:
        row.records, row.payload_bytes = meta.records, meta.payload_bytes
        row.digest = f"{meta.digest % DIGEST_MODULUS:032x}"


def _describe_logical_topics(instance: Instance, topic: TopicConfig, problems: list[SowError]) -> TopicInfo:
    """Describe logical topics of a Pattern topic: their records are counted; file and position are the Pattern
    topic's."""
    from sowctl.engine.sources.digest import compute_digest

    row = _describe_topic(instance, topic.whole_topic, problems)
    assert topic.logical is not None
    row.kind, row.topic = "logical topic", topic.label
    which = "this logical topic" if topic.logical_name is not None else f"topics that match {topic.logical.text!r}"
    row.note = row.note or f"records of {which}; file, position and lag are those of {topic.name!r}"
    if row.state != "ok" and not (row.state == "transient" and topic.journalled and row.last_txid):
        return row
    target = Target(topic=topic)
    found = compute_digest(instance, target)
    row.records, row.digest, row.expired = found.records, found.digest, 0
    row.payload_bytes, row.last_update = 0, None
    with closing(open_source(instance, target, None)) as source:
        for _, values in source.read_batches(STORE_LIMITS.read_batch_records):
            row.payload_bytes += sum(map(len, extract_payloads(values)))
            row.last_update = max(row.last_update or 0, *(read_stamps(value)[1] for value in values))
    return row


def _format_interval(microseconds: int) -> str:
    return format_interval(microseconds * INTERVAL_NANOSECONDS["us"])


def _describe_topic(instance: Instance, topic: TopicConfig, problems: list[SowError]) -> TopicInfo:
    if topic.logical is not None:
        return _describe_logical_topics(instance, topic, problems)
    row = TopicInfo(topic.name, topic.message_type, "Topic", "ok")
    row.path = str(topic.file) if topic.file is not None else None
    row.keys = tuple(str(path) for path in topic.keys)
    row.key_mode = topic.key_mode
    row.journalled = topic.journalled
    row.expiration = topic.expiration.kind
    if topic.expiration.kind == "interval":
        row.expiration = _format_interval(topic.expiration.interval_us)
    if topic.history is not None:
        window, granularity = _format_interval(topic.history.window_us), _format_interval(topic.history.granularity_us)
        row.history = f"window {window}, granularity {granularity}"
    if topic.file is None or not topic.file.exists():
        row.state = "transient" if topic.file is None else "no store"
        state = _read_journal_topics(instance).get(topic.ref) if topic.journalled else None
        if state is not None:
            row.last_txid, row.last_update = state.last_txid, state.last_time or None
            _count_in_journals(instance, topic, row)
        return row
    try:
        source = open_current_source(instance, topic)
    except SowError as error:
        states = ((DamageError, "damaged"), (MissingError, "missing"))
        row.state = next((state for kind, state in states if isinstance(error, kind)), "unreadable")
        row.note = error.message
        # An unreadable store does not hide the others.
        problems.append(error)
        return row
    with closing(source):
        _fill_from_source(row, source, topic.file)
    return row


def _count_in_journals(instance: Instance, topic: TopicConfig, row: TopicInfo) -> None:
    """Count the records of a topic without a store as a query does; an error becomes the note."""
    if not row.last_txid:
        return
    try:
        with closing(open_current_source(instance, topic)) as source:
            row.records, row.expired = source.count_by_lifetime()
            row.payload_bytes = source.meta.payload_bytes
    except SowError as error:
        row.note = error.message


def _fill_from_source(row: TopicInfo, source: CurrentSource, path: Path) -> None:
    meta = source.meta
    memtable = source.memtable
    row.path = str(path)
    row.versions, row.payload_bytes = meta.versions, meta.payload_bytes
    row.file_bytes = path.stat().st_size
    row.index_bytes = MemoDirectory(path).count_bytes()
    row.applied, row.last_txid = meta.applied, source.last_txid
    row.last_update = max(meta.last_time, memtable.last_time if memtable is not None else 0) or None
    row.digest = f"{meta.digest % DIGEST_MODULUS:032x}"
    row.records, row.expired = source.count_by_lifetime()
    beside = build_runs_directory(path)
    # Runs that a reader spilled for itself do not belong to the topic.
    for run in (run for run in (memtable.runs if memtable is not None else ()) if run.path.parent == beside):
        row.runs, row.run_records, row.run_bytes = row.runs + 1, row.run_records + len(run), row.run_bytes + run.bytes
    # Number of keys changed after the store's position, not of entries: the records a writer has to update to catch up.
    row.lag = sum(map(len, memtable.iterate_parts(STORE_LIMITS.read_batch_records))) if memtable is not None else 0
    row.flush = _describe_next_flush(source, row.file_bytes, path)
    _fill_file_use(row, path)


def _describe_next_flush(source: CurrentSource, file_bytes: int, path: Path) -> str | None:
    """Describe the flush at the end of a session that starts now and publishes little; None with nothing to apply."""
    memtable, config = source.memtable, source.config
    if memtable is None or not len(memtable) or config is None or not config.journalled:
        return None
    figures = build_figures(
        memtable,
        source.meta,
        file_bytes,
        has_history=config.history is not None,
        is_journalled=True,
        is_building=is_being_built(path),
    )
    return describe_flush(figures, plan_final_flush(figures, is_memtable_full=figures.is_memtable_full))


def _fill_file_use(row: TopicInfo, path: Path) -> None:
    """Fill in the use of the file and the readers that retain its pages; nothing if writers change it too fast."""
    from sowctl.store.repair.leftovers import list_leftovers
    from sowctl.store.repair.space import measure_space_at

    row.leftovers = len(list_leftovers(path))
    space = measure_space_at(path)
    if space is None:
        return
    row.pages, row.free_pages, row.map_bytes = space.pages, space.free_pages, space.map_bytes
    row.readers, row.retained_pages, row.reader_behind = space.readers, space.retained_pages, space.behind
    if space.oldest is not None:
        row.reader_pid = space.oldest.pid
        row.reader_seconds = None if space.oldest.seconds is None else round(space.oldest.seconds, 1)


def _list_log_only(instance: Instance) -> list[TopicInfo]:
    """Return the topics that only the transaction log names: literally, or by a pattern with at least one entry."""
    from sowctl.config.topic_patterns import is_pattern
    from sowctl.journal.state import EMPTY_TOPIC_STATE

    log = instance.log
    if log is None or instance.config is None:
        return []
    known = _read_journal_topics(instance)
    refs = [topic.ref for topic in log.topics if not is_pattern(topic.name)]
    rows = []
    for ref in dict.fromkeys(refs + sorted(ref for ref in known if log.covers_topic(*ref))):
        if not instance.config.find_entries(*ref):
            state = known.get(ref, EMPTY_TOPIC_STATE)
            row = TopicInfo(*ref, "journal only", "no SOW", key_mode="none", journalled=True, last_txid=state.last_txid)
            row.last_update = state.last_time or None
            rows.append(row)
    return rows


def _read_journal_topics(instance: Instance) -> Mapping[TopicRef, TopicState]:
    """Return the journal's state of every topic; empty if it cannot be read: ``check`` reports why."""
    from sowctl.engine.topics.positions import has_log, open_log

    try:
        if not has_log(instance):
            return {}
        with open_log(instance) as journal:
            return journal.read_topic_states()
    except SowError:
        return {}

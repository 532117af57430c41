"""Holders of journal entries: stores, RecoveryPoints, queues, conflated topics, chains, subscriptions, archives.

Each holder has the txid after which it needs entries, their topics, the reason, and the command that releases them.
During maintenance the needs of a holder only decrease, unless a user sets a bookmark back at that moment. Called by
:mod:`sowctl.engine.maintenance.retention.prune`. Specified in ``sow-journal(5)``, "Looking after files".
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.config.derived_entries import ConflatedTopic
from sowctl.config.model import TopicConfig
from sowctl.engine.sources.recovery import find_recovery_start
from sowctl.engine.topics.histories import find_former_history
from sowctl.engine.topics.positions import build_definition, check_position, read_meta
from sowctl.engine.topics.queuestates import list_configured_queues
from sowctl.errors import ConfigError, MissingError, SowError, UsageError
from sowctl.journal.maintenance.upload import ArchiveUpload
from sowctl.store.env import Store
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.subscriptions.bookmark_stores.protocol import BookmarkStore
    from sowctl.journal.maintenance.survey import SurveyedFile
    from sowctl.journal.reader import Journal
    from sowctl.values.topicref import TopicRef


class EntryHolder(DescribedStruct, frozen=True):
    """A holder of the entries after the txid ``after`` of ``topic_refs``, None for all topics.

    ``release``: the command that releases them, if any. ``file``: the file to sync before entries that it no longer
    needs are removed; ``topic``: the topic whose store it is, None for a saved state.
    """

    kind: str
    name: str
    after: int
    topic_refs: tuple[TopicRef, ...] | None
    why: str
    release: str | None = None
    file: Path | None = None
    topic: TopicConfig | None = None

    @property
    def label(self) -> str:
        """Its kind and its name."""
        return f"{self.kind} {self.name}"

    def holds(self, file: SurveyedFile) -> bool:
        """Return whether a finished file has entries that it needs, or is after one that has."""
        assert file.last_txid is not None
        if self.topic_refs is None:
            return file.last_txid > self.after
        return any(file.find_last_txid(topic) > self.after for topic in self.topic_refs)

    def sync(self, instance: Instance) -> None:
        """Sync its applied changes to disk, including the meta page. Raises what opening for writing raises."""
        if self.file is None:
            return
        assert instance.config is not None
        definition = None if self.topic is None else build_definition(instance.config.name, self.topic)
        with Store.open(
            self.file,
            write=True,
            seam=instance.seam,
            lock_wait=instance.lock_wait,
            durable=False,
            definition=definition,
            command=instance.holder,
            notify=instance.notify,
        ) as store:
            store.sync()


def list_holders(
    instance: Instance, log: Journal, files: Sequence[SurveyedFile], bookmarks: Iterable[str] = ()
) -> Iterator[EntryHolder]:
    """Yield all holders that may need entries of ``log``, whose end has been read; ``files`` are its files,
    ``bookmarks`` are bookmark store files in addition to those found. Raises what reading a bookmark store or a queue
    raises."""
    # Notifications of readers at their own start are irrelevant here.
    quiet = replace(instance, notify=lambda words: None)
    for topic in instance.topics:
        if topic.journalled:
            yield _build_topic_holder(quiet, log, topic)
            if (chained := _build_chain_holder(quiet, log, topic)) is not None:
                yield chained
    for entry in instance.config.sow if instance.config is not None else ():
        if isinstance(entry, ConflatedTopic) and (held := _build_conflated_holder(quiet, log, entry)) is not None:
            yield held
    if (archived := _build_archive_holder(quiet, files)) is not None:
        yield archived
    yield from _list_queue_holders(quiet)
    for name, store in _list_bookmark_stores(quiet, bookmarks):
        yield from _list_bookmark_holders(quiet, log, name, store)


def _build_topic_holder(instance: Instance, log: Journal, topic: TopicConfig) -> EntryHolder:
    """Return the holder for the store of a topic, or for the RecoveryPoint of a topic without a store."""
    ref = topic.ref
    replay = f"sowctl replay {shlex.quote(topic.name)}"
    if topic.file is None:
        point = topic.recovery_point.strip()
        why = f"it has no store: each read rebuilds it from its RecoveryPoint ({point})"
        release = None if point.lower() == "now" else "a later RecoveryPoint in the configuration"
        return EntryHolder(
            "RecoveryPoint of", topic.name, find_recovery_start(topic, log, instance), (ref,), why, release
        )
    if not topic.file.exists():
        return EntryHolder("store", topic.name, 0, (ref,), "it is missing, and is rebuilt from the journal", replay)
    try:
        meta = read_meta(topic.file, instance)
        after = check_position(meta, log, ref, topic.file)
    except SowError as error:
        # The topic's own commands report why it cannot be read; until then all entries stay.
        return EntryHolder("store", topic.name, 0, (ref,), error.message, replay)
    # A store of a history that this journal does not continue has applied no entry of it, whatever its position.
    after = after if meta.lineage == log.lineage or find_former_history(log, meta.lineage) is not None else 0
    return EntryHolder(
        "store", topic.name, after, (ref,), f"it has applied entries up to txid {after}", replay, topic.file, topic
    )


def _build_chain_holder(instance: Instance, log: Journal, topic: TopicConfig) -> EntryHolder | None:
    """Return the holder for a topic's file of key chains, which knows the chains up to a txid; None without chains."""
    from sowctl.engine.keys.generators import build_generated_keys

    if topic.key_generator is None:
        return None
    try:
        chains = build_generated_keys(instance, topic, instance.find_message_type(topic.message_type)).chains
    except ConfigError:
        return None  # no plugin implements the generator: publishing fails as well
    if chains is None:
        return None
    try:
        after = chains.find_saved_txid(log.lineage)
        why = f"its file of chains has applied entries up to txid {after}"
    except SowError as error:
        after, why = 0, error.message
    ref = topic.ref
    return EntryHolder("key chains of", topic.name, after, (ref,), why, f"sowctl publish {shlex.quote(topic.name)}")


def _build_conflated_holder(instance: Instance, log: Journal, entry: ConflatedTopic) -> EntryHolder | None:
    """Return the holder for a conflated topic, which needs its saved state or the whole journal; None without
    records."""
    from sowctl.engine.views.cache import find_cache_path
    from sowctl.engine.views.conflation.state_tables import definition_digest, is_recorded, read_state
    from sowctl.engine.views.instant import find_entry, list_topic_refs

    if not is_recorded(instance, entry):
        return None
    topic_refs = tuple(list_topic_refs(instance, entry))
    conflate = f"sowctl conflate {shlex.quote(entry.name)}"
    if not isinstance(find_entry(instance, entry.source), TopicConfig):
        why = "its state is computed from the start of the journal, because its source is not a topic"
        return EntryHolder("conflated topic", entry.name, 0, topic_refs, why)
    path = find_cache_path(instance, entry)
    kept = None
    if path is not None and path.exists():
        try:
            with Store.open(path, write=False, seam=instance.seam) as store, store.open_snapshot() as snapshot:
                kept = read_state(snapshot)
        except SowError:
            kept = None
    if kept is None or kept.lineage != log.lineage.hex() or kept.definition != definition_digest(instance, entry):
        why = "it has no saved state for this journal, and is computed from its start"
        return EntryHolder("conflated topic", entry.name, 0, topic_refs, why, conflate)
    why = f"its saved state has applied entries up to txid {kept.applied}"
    return EntryHolder("conflated topic", entry.name, kept.applied, topic_refs, why, conflate, path)


def _build_archive_holder(instance: Instance, files: Sequence[SurveyedFile]) -> EntryHolder | None:
    """Return the holder for a JournalArchiveDirectory at a URL, to which files are uploaded while they stay here.

    A file removed before it was uploaded would be missing between the segments and the files here: readers of past
    states would fail with ``SOW-JRN-086``, and no later file could be uploaded.
    """
    config, log = instance.config, instance.log
    if config is None or log is None or (archive := log.archive_url) is None:
        return None
    try:
        sending = ArchiveUpload(archive, config.name, instance.seam, instance.now)
        # If the txids there are of another journal with this name, they mean nothing for these files.
        sending.check_continuity(files)
        after = sending.last_txid
        why = f"it has the entries up to txid {after}" if after else "no file was uploaded yet"
    except SowError as error:
        # It is unknown whether a file is archived, or the archived file is another one: all files stay.
        after, why = 0, error.message
    return EntryHolder("archive", str(archive), after, None, why, "sowctl journal archive")


def _list_queue_holders(instance: Instance) -> Iterator[EntryHolder]:
    """Yield the holders for the oldest pending message, or dead letter that is not purged, of each queue."""
    from sowctl.engine.queues.queue import OpenQueue
    from sowctl.engine.queues.reports import find_oldest_needed_txid

    for config in list_configured_queues(instance):
        with OpenQueue(instance, config) as queue:
            oldest = find_oldest_needed_txid(queue)
        if oldest is not None:
            why = f"its oldest message that is pending, or a dead letter not purged yet, has txid {oldest}"
            name = shlex.quote(config.name)
            release = f"sowctl queue run {name} -- COMMAND processes it, sowctl queue purge {name} removes it"
            # None means all topics: messages and acknowledgements of a queue are entries of several topics.
            yield EntryHolder("queue", config.name, oldest - 1, None, why, release)


def _list_bookmark_stores(instance: Instance, named: Iterable[str]) -> Iterator[tuple[str, BookmarkStore]]:
    """Yield the bookmark stores of an instance: topics that are bookmark stores, files that are named, files that
    subscriptions have listed, and files in the directory of the configuration, the root of its paths, and the working
    directory.
    """
    from sowctl.engine.subscriptions.bookmark_stores.file import FileStore
    from sowctl.engine.subscriptions.bookmark_stores.store_kinds import STORE_FILE_SUFFIX
    from sowctl.engine.subscriptions.bookmark_stores.store_list import list_known_stores
    from sowctl.engine.subscriptions.bookmark_stores.topic import TopicStore

    for topic in instance.topics:
        try:
            yield topic.name, TopicStore(instance, topic, _ReadOnlyRows())
        except UsageError:
            continue
    config = instance.config
    assert config is not None
    places = dict.fromkeys(place.resolve() for place in (instance.working, config.directory, config.root))
    files = {path.resolve(): path for name in named if (path := instance.working / name)}
    # A listed store file that was removed has no positions any more.
    files |= {path: path for path in list_known_stores(instance) if path.is_file()}
    for place in places:
        files |= {path.resolve(): path for path in sorted(place.glob(f"*{STORE_FILE_SUFFIX}")) if path.is_file()}
    for path in files.values():
        if not path.exists():
            raise MissingError("SOW-UPK-003", "the bookmark store does not exist", place=str(path))
        yield str(path), FileStore(path, instance.seam, instance.clock)


class _ReadOnlyRows:
    """Rows of a store in a topic that is only read."""

    def publish(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        raise AssertionError("nothing is written")

    def delete(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        raise AssertionError("nothing is written")


def _list_bookmark_holders(instance: Instance, log: Journal, name: str, store: BookmarkStore) -> Iterator[EntryHolder]:
    """Yield the positions from which the subscriptions of a store resume; their topics are not known. A position that
    was pruned or never existed holds nothing."""
    from sowctl.engine.subscriptions.bookmarks import parse_bookmark_range
    from sowctl.engine.subscriptions.spans import NotFoundPolicy, resolve_bookmark_range

    @cache
    def behind(bookmark: str) -> int | None:
        # Subscriptions that are up to date share one position, and resolving it may read a journal file.
        try:
            return resolve_bookmark_range(
                instance, log, parse_bookmark_range(bookmark, instance.clock), not_found=NotFoundPolicy.FAIL
            ).after
        except (MissingError, UsageError):
            return None

    try:
        for row in store.list_places():
            after = behind(row.bookmark)
            if after is None:
                continue
            who = f"{name} {row.who.client}/{row.who.sub_id}"
            release = (
                f"sowctl bookmark purge {shlex.quote(name)} --client {shlex.quote(row.who.client)} "
                f"--sub-id {shlex.quote(row.who.sub_id)}"
            )
            yield EntryHolder("bookmark", who, after, None, f"its subscription resumes after txid {after}", release)
    finally:
        store.close()

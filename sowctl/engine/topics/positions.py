"""Positions of stores and journals: whether a journal continues a store, and covers a topic's past."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.topics.histories import find_former_history, format_history_name, make_undone_store_error
from sowctl.engine.topics.queuestates import find_highest_synced, list_queue_positions
from sowctl.errors import ConfigError, DamageError, MissingError, RefusedError, SowError
from sowctl.store.env import Store
from sowctl.store.meta import NO_LINEAGE, AppliedPosition, Definition, StoreMeta
from sowctl.values.display import format_count
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.journal.writer import JournalWriter
    from sowctl.remote.place import Place


STORE_AHEAD_OF_JOURNAL = "SOW-ENG-001"
NO_STORE_CODE = "SOW-ENG-010"
"""The code of :func:`make_no_store_error`: nothing was published to the topic, or it keeps nothing."""
OTHER_HISTORY = "SOW-ENG-085"
OTHER_KEYS = "SOW-RPL-010"
KEY_DEFINITION_FIELDS = frozenset(("key_mode", "key_fields", "key_domain"))
"""The fields of a definition that determine the keys of records."""


class StorePosition(Struct, frozen=True):
    """A store's position: path, txid and lineage; ``applied`` is 0 without a readable store."""

    path: Path
    applied: int
    lineage: bytes
    ref: TopicRef = TopicRef("", "")
    last_time: int = 0


def get_end_position(journal: JournalWriter) -> AppliedPosition:
    """Return the position of a store that has applied all of a journal, whose lock is held."""
    return AppliedPosition(journal.lineage, journal.last_txid, journal.last_block)


def build_definition(instance_name: str, topic: TopicConfig) -> Definition:
    """Return the definition for a topic's store."""
    return Definition(
        instance=instance_name,
        topic=topic.name,
        message_type=topic.message_type,
        key_mode=topic.key_mode,
        key_fields=tuple(str(path) for path in topic.keys),
        key_domain=_get_definition_domain(topic),
    )


def _get_definition_domain(topic: TopicConfig) -> str | None:
    """Return the key domain in a store's definition: None for none, an empty text for each record's logical topic."""
    # Each logical topic is the domain of its own keys, so the store has no single domain.
    if topic.pattern is not None and not topic.shares_domain:
        return ""
    return topic.key_domain if topic.key_mode == "fields" else None


def open_log(
    instance: Instance,
    *,
    acknowledged: int = 0,
    directory: Place | None = None,
    whole: bool = False,
    archive: Place | None = None,
    reaching: int | None = None,
) -> Journal:
    """Open the instance's journal for reading; ``directory`` names another directory of it, which no store refers to.

    ``archive`` replaces the one of the configuration. Both may be URLs; ``reaching`` is as in :meth:`Journal.open`.

    ``acknowledged``: the position of the caller's own store. ``whole``: the result depends on the end of the journal,
    so the positions of all stores and queues are checked, as they are if no topics file records how far the journal was
    synced.

    Raises ConfigError ``SOW-ENG-020`` without a TransactionLog, MissingError ``SOW-JRN-001`` without files.
    """
    from sowctl.journal.reader import Journal

    config, log = instance.config, instance.log
    if config is None or (log is None and directory is None):
        raise ConfigError("SOW-ENG-020", "this configuration has no TransactionLog")
    if directory is not None or log is None:
        assert directory is not None
        return _notify_gaps(
            instance,
            Journal.open(
                directory,
                config.name,
                seam=instance.seam,
                acknowledged=acknowledged,
                archive=archive,
                reaching=reaching,
            ),
        )
    journal = Journal.open(
        log.directory,
        config.name,
        seam=instance.seam,
        acknowledged=acknowledged,
        archive=archive if archive is not None else log.archive_directory,
        reaching=reaching,
    )
    _notify_gaps(instance, journal)
    try:
        # A journal that lost its end looks like a shorter one. Later positions of a store, a queue, or the topics file
        # prove that there was more.
        if whole or not journal.has_synced_txid:
            # A store that a session of this process writes is not opened twice; its writer has checked the end.
            others = [topic for topic in instance.topics if instance.opened(topic) is None]
            journal.note_synced_txid(find_highest_applied(journal.lineage, list_store_positions(instance, others)))
            journal.note_synced_txid(find_highest_synced(journal.lineage, list_queue_positions(instance)))
    except BaseException:
        journal.close()
        raise
    return journal


def open_whole_log(instance: Instance, directory: Place | None = None) -> Journal:
    """Open the journal for results that depend only on it, including its end: lists, dumps, searches, past states.

    Raises as :func:`open_log`, and DamageError ``SOW-JRN-013`` if all files are missing of a journal that had txids
    according to the topics file, a store or a queue.
    """
    try:
        return open_log(instance, directory=directory, whole=directory is None)
    except MissingError as error:
        if error.code != "SOW-JRN-001":
            raise
        if not (known := _find_highest_given_txid(instance, directory)):
            _refuse_topic(instance, directory, error)
            raise
        # Reads of the present may continue with the stores; here everything requested is gone.
        raise DamageError(
            "SOW-JRN-013",
            f"all journal files are missing; the journal had txids up to {known}",
            place=error.place,
            hint="restore its files from a copy; to continue without them, see 'Accepting a loss' in sow-journal(5)",
            last_txid=known,
        ) from None


def has_entries(instance: Instance, name: str, message_type: str | None) -> bool:
    """Return whether the journal has entries of an unconfigured topic; False if it is unreadable."""
    try:
        if not has_log(instance):
            return False
        with open_log(instance) as journal:
            return any(topic == name and message_type in (None, kind) for topic, kind in journal.read_topic_states())
    except (OSError, SowError):
        # This is only for a hint: the error about the name must not become one about the journal.
        return False


def format_dump_hint(topic: str) -> str:
    """Return a hint with the command that prints a topic's entries in the journal."""
    from shlex import quote

    return f"sowctl journal dump {quote(topic)} prints its messages"


def _refuse_topic(instance: Instance, directory: Place | None, error: MissingError) -> None:
    """Raise the error with a hint at ``--topic`` if a topic's name was given as a journal directory."""
    name = None if directory is None else str(directory)
    if name is not None and (
        (instance.config is not None and instance.config.find_entries(name)) or has_entries(instance, name, None)
    ):
        raise MissingError(error.code, error.message, place=error.place, hint=format_dump_hint(name)) from None


def _find_highest_given_txid(instance: Instance, directory: Place | None) -> int:
    """Return the highest txid known to be assigned, in any lineage; 0 for none. A directory other than the configured
    one has only its topics file."""
    from sowctl.journal.state import read_last_known_txid

    assert instance.config is not None
    if directory is not None or instance.log is None:
        return read_last_known_txid(directory, instance.config.name) if isinstance(directory, Path) else 0
    stores = list_store_positions(instance, [topic for topic in instance.topics if topic.journalled])
    told = [one.applied for one in stores if one.lineage != NO_LINEAGE]
    read = [max(one.told, one.read) for one in list_queue_positions(instance)]
    return max([read_last_known_txid(instance.log.directory, instance.config.name), *told, *read])


def _notify_gaps(instance: Instance, journal: Journal) -> Journal:
    """Make a journal report skipped gaps to ``instance.notify``, each once per run, and its progress to
    ``instance.watch``; return it."""
    journal.on_gap = lambda gap: instance.notify_once(f"gap {gap.path}@{gap.offset}", gap.note)
    if instance.is_watched:
        journal.on_read = lambda done, total: instance.watch("journal entries", done, total)
    return journal


def notify_skipped_tail(instance: Instance, log: Journal) -> None:
    """Report to ``instance.notify`` the entries skipped at the end of a journal, after reading up to it."""
    if log.tail_report is not None:
        instance.notify(log.tail_report.note)


def has_log(instance: Instance) -> bool:
    """Return whether the instance's journal has a file. Raises DamageError ``SOW-JRN-006`` if one in between is
    missing.
    """
    from sowctl.journal.reader import Journal

    config, log = instance.config, instance.log
    return config is not None and log is not None and Journal.exists(log.directory, config.name, log.archive_directory)


def refuse_lost_log(instance: Instance, topic: TopicRef, meta: StoreMeta) -> None:
    """Reject a store that lacks entries of a journal whose files are all missing, according to the topics file.

    A store that has applied all of its topic's entries lacks nothing: the journal may have been removed on purpose.
    Raises DamageError ``SOW-JRN-013``.
    """
    from sowctl.journal.state import EMPTY_TOPIC_STATE, read_topics_lineage

    config, log = instance.config, instance.log
    if config is None or log is None:
        return
    lineage, told = read_topics_lineage(log.directory, config.name)
    last = (
        told.topic_states.get(topic, EMPTY_TOPIC_STATE).last_txid if told is not None and lineage == meta.lineage else 0
    )
    if last > meta.applied:
        raise DamageError(
            "SOW-JRN-013",
            f"all journal files are missing, but txid {last} of topic {topic[0]!r} was "
            f"acknowledged, and its store ends at txid {meta.applied}: the entries between are lost",
            place=str(log.directory),
            hint="restore the journal from a copy; to continue without it, see 'Accepting a loss' in sow-journal(5)",
            offset=0,
            first_txid=meta.applied + 1,
            last_txid=last,
        )


def find_highest_applied(lineage: bytes, stores: Iterable[StorePosition]) -> int:
    """Return the highest txid that any of the stores has applied from the journal of this lineage."""
    # In another lineage the same txids are other entries.
    return max((store.applied for store in stores if store.lineage == lineage), default=0)


def open_store(instance: Instance, path: Path) -> Store:
    """Open a store for reading; a read without locks is reported once per run. Raises what opening raises."""
    store = Store.open(path, write=False, seam=instance.seam, lock_wait=instance.lock_wait)
    if store.is_unlocked:
        notify_unlocked(instance, path)
    return store


def notify_unlocked(instance: Instance, path: Path) -> None:
    """Report that a store is read without locks; the details explain the consequences."""
    instance.notify_once(
        "unlocked",
        "reading without locks: lock files are not writable",
        f"{path.name}-lock or {path.name}-gate is not writable; while another process writes to "
        "the store, a read may end with status 11; printed records are always of one state",
    )


def read_meta(path: Path, instance: Instance) -> StoreMeta:
    """Read the meta record of a store. Raises what opening raises."""
    with open_store(instance, path) as store:
        return store.read_meta()


def list_store_positions(instance: Instance, topics: Iterable[TopicConfig]) -> list[StorePosition]:
    """Return the positions of the existing stores; 0 for an unreadable one, which is reported when it is opened."""
    found = []
    for topic in topics:
        if topic.file is None:
            continue
        try:
            if not topic.file.exists():
                continue
            meta = read_meta(topic.file, instance)
            ref = topic.ref
            found.append(StorePosition(topic.file, meta.applied, meta.lineage, ref, meta.last_time))
        except (SowError, OSError):
            # Position 0 without a lineage proves nothing and acknowledges nothing: a damaged store must not block work
            # on the others.
            found.append(StorePosition(topic.file, 0, bytes(16)))
    return found


def check_position(meta: StoreMeta, log: Journal, topic: TopicRef, place: Path) -> int:
    """Return the txid after which the journal continues a store with ``meta``; later entries have to be applied.

    A store of another lineage is accepted if the journal started above it (the old journal was removed), a store
    without a lineage if the topic was not journalled before, and a store before the oldest file if no removed file had
    entries of the topic. Raises DamageError ``SOW-ENG-001`` (before the oldest available entry), ``SOW-ENG-002`` (ahead
    of the journal), ``SOW-ENG-003`` (a lineage that this journal does not continue), ``SOW-ENG-089`` (ahead of where a
    restore ended the store's history), and what :func:`refuse_other_history` raises.
    """
    last_txid = log.read_last_txid()
    # A txid identifies an entry only together with its journal's lineage, so that is compared first.
    ended = find_former_history(log, meta.lineage) if meta.lineage != log.lineage else None
    if ended is not None:
        # A restore has ended the history of the store: up to its end, the entries are also those of this journal.
        if meta.applied > ended.last_txid:
            raise make_undone_store_error(meta.applied, ended, log, place)
    elif meta.lineage != log.lineage:
        # This journal started above all stores that existed, so none of its entries is applied. A store with a position
        # inside it, but in another lineage, has entries that this journal does not know.
        first_txid = log.first_txid
        if meta.applied < first_txid or not meta.has_journal:
            # It started above the store, but its first files may be removed since, with entries that the store lacks.
            if not log.begins_lineage and not log.covers_topic_after(topic, meta.applied):
                raise _make_journal_behind_error(meta, log, place)
            return first_txid - 1
        raise DamageError(
            "SOW-ENG-003",
            f"the store follows another journal: it is at txid {meta.applied} of history "
            f"{format_history_name(meta.lineage)}; this journal has history {format_history_name(log.lineage)} and "
            f"begins at txid {first_txid}",
            place=str(place),
            hint="restore the journals of the store, or move the store away and run sowctl replay",
        )
    # The store has entries that the journal lost. Continuing would assign their txids to other entries, which this
    # store would then skip (behaviour 1.6).
    if meta.applied > last_txid:
        raise DamageError(
            "SOW-ENG-002",
            f"the store has applied txid {meta.applied}, but the journal ends at txid {last_txid}",
            place=str(place),
            hint="the end of the journal is missing: restore it from a copy; to continue without it, "
            "see 'Accepting a loss' in sow-journal(5)",
        )
    refuse_other_history(meta, log, place)
    # Files in between may be removed; that is harmless if none of their entries was of this topic.
    if not log.covers_topic_after(topic, meta.applied):
        raise _make_journal_behind_error(meta, log, place)
    return meta.applied


def _make_journal_behind_error(meta: StoreMeta, log: Journal, place: Path) -> DamageError:
    return DamageError(
        STORE_AHEAD_OF_JOURNAL,
        f"the store has applied txid {meta.applied}, but the oldest journal file begins at txid "
        f"{log.first_txid} (searched {log.search_locations})",
        place=str(place),
        hint="restore the older journal files, there or in the archive; without them, the changes between are lost",
    )


def refuse_other_history(meta: StoreMeta, log: Journal, place: Path) -> None:
    """Reject a store that took its last entries from a copy of this journal which has diverged.

    Copies share the lineage, and both assign the same txids to different entries: only the last applied block
    distinguishes them. A store without one (of an earlier release) is accepted. The end of ``log`` must have been read.
    Raises DamageError ``SOW-ENG-085``, or the damage of the journal at that position.
    """
    # The block's identity is more reliable than a txid: two copies of a journal assign the same txids to different
    # entries.
    if meta.block is None or log.has_block(meta.block, meta.applied):
        return
    if meta.lineage != log.lineage and find_former_history(log, meta.lineage) is None:
        return
    held = 0
    for block in log.iter_blocks(after=meta.applied - 1, until=meta.applied):
        held = block.header.crc  # a damaged journal raises its own error here
    raise DamageError(
        OTHER_HISTORY,
        "the store follows another copy of this journal: its last block, which ends at txid "
        f"{meta.applied}, has checksum {meta.block[2]:08x}, but {held:08x} in the journal",
        place=str(place),
        hint="restore the store together with its journal; or run sowctl replay, which rebuilds the "
        "store from this journal and keeps the current file",
    )


def refuse_other_topic(topic: TopicConfig, meta: StoreMeta) -> None:
    """Reject a file as a topic's store if it is the store of another topic. Raises RefusedError ``SOW-ENG-023``.

    Readers check only this: other keys or another instance's name do not change what the records are;
    :func:`notify_other_definition` reports these.
    """
    found = meta.definition
    if found.ref != topic.ref:
        raise RefusedError(
            "SOW-ENG-023",
            f"the file of topic {topic.name!r} ({topic.message_type}) is the store of "
            f"{found.topic!r} ({found.message_type})",
            place=str(topic.file),
            hint="move each store to its own path, or correct the FileName; to read the file anyway, give its path",
            topic=topic.name,
        )


def notify_other_definition(instance: Instance, topic: TopicConfig, meta: StoreMeta) -> None:
    """Report, once per run and topic, that a store is read which a writer would reject (``SOW-STO-024``)."""
    if instance.config is None:
        return
    expected, found = build_definition(instance.config.name, topic), meta.definition
    if expected == found:
        return
    if expected.instance != found.instance:
        words = f"belongs to instance {found.instance!r}, but the configuration is for instance {expected.instance!r}"
    else:
        words = f"has another definition: {found} in the file, {expected} in the configuration"
    instance.notify_once(
        f"definition of {topic.name}",
        f"the store of topic {topic.name!r} {words}: it can be read, but not written",
    )


def make_other_keys_error(
    topic: TopicConfig, sow_key: int | None = None, found: Definition | None = None
) -> RefusedError:
    """Return the error for a topic whose records have keys of another definition: of a store, or of one record."""
    made = {
        "fields": f"from the fields {', '.join(map(str, topic.keys))}",
        "user": "from its publishers",
        "module": "from its generator",
    }
    what = (
        f"the journal has a record with SOW key {sow_key}"
        if found is None
        else f"the store was created for {found}, and the keys of its records in the journal are of that definition"
    )
    return RefusedError(
        OTHER_KEYS,
        f"topic {topic.name!r} now gets its keys {made.get(topic.key_mode, 'otherwise')}: "
        f"{what}; new messages for these records would create additional records",
        place=str(topic.file) if topic.file is not None else None,
        hint=f"sowctl replay --rekey {topic.name} gives all records their new keys; or restore the "
        "previous Key in the configuration",
        topic=topic.name,
    )


def refuse_other_keys(topic: TopicConfig, expected: Definition, found: Definition) -> None:
    """Reject a store whose definition makes other keys. Raises RefusedError ``SOW-RPL-010``."""
    if KEY_DEFINITION_FIELDS.intersection(expected.list_differences(found)):
        raise make_other_keys_error(topic, found=found)


def refuse_unlogged_past(topic: TopicConfig, meta: StoreMeta, log: Journal) -> None:
    """Reject a store with records from before the journal: a rebuild would lose them silently.

    A new journal records such topics when it starts. Raises RefusedError ``SOW-ENG-022``.
    """
    # A store that follows this journal, or an empty one, has no records that a rebuild could lose.
    if meta.lineage == log.lineage or not (meta.records or meta.versions):
        return
    if meta.has_journal and meta.applied >= log.first_txid:
        return  # it follows another journal, which is another error
    # The journal claims to have all entries of the topic, but the store has records that are not from it.
    if log.covers_topic(topic.ref):
        raise RefusedError(
            "SOW-ENG-022",
            f"topic {topic.name!r} has {format_count(meta.records, 'record')} from before it had a journal; they "
            "are not in the journal and could not be rebuilt from it",
            place=str(topic.file),
            hint=f"sowctl query {topic.name} --meta > FILE, move the store away, then sowctl publish "
            "--framing envelope < FILE",
            topic=topic.name,
        )


def make_no_store_error(topic: TopicConfig) -> MissingError:
    """Return the error of a reader whose topic has nothing to read."""
    lost = topic.durability == "transient" and not topic.journalled
    return MissingError(
        NO_STORE_CODE,
        f"topic {topic.name!r} " + ("is transient and has no journal" if lost else "has no store yet"),
        place=str(topic.file) if topic.file is not None else None,
        hint="its records are not saved anywhere: give it a FileName, or add it to the TransactionLog"
        if lost
        else "publish to it first; sowctl info shows which topics have stores",
        topic=topic.name,
    )


def make_not_covered_error(topic: TopicConfig, log: Journal) -> MissingError:
    """Return the error for a missing store that cannot be rebuilt from the remaining journals."""
    return MissingError(
        "SOW-ENG-011",
        f"the store of topic {topic.name!r} is missing, and the journals begin at txid "
        f"{log.first_txid}, after the topic's first entry (searched {log.search_locations})",
        place=str(topic.file),
        hint=f"restore the store or the older journals; without them, sowctl replay {topic.name} "
        "rebuilds a store from the remaining journals",
        topic=topic.name,
    )


@contextmanager
def add_replay_hint(topic: TopicConfig | None) -> Iterator[None]:
    """Set the repair command as the hint of a DamageError of ``topic``'s store; None: a bare file, unchanged."""
    try:
        yield
    except DamageError as error:
        if topic is not None and error.code.startswith("SOW-STO-"):
            error.hint = format_damage_advice(topic)
        raise


def format_damage_advice(topic: TopicConfig) -> str:
    """The command that helps where the store of a topic is damaged, as a hint."""
    if topic.derived is not None:
        command = "view refresh" if topic.derived.kind == "View" else "query"
        return f"it is derived from other topics: sowctl {command} {topic.name} --fresh rebuilds it"
    if topic.journalled:
        return f"sowctl replay {topic.name} rebuilds the store from the journals and keeps the damaged file beside it"
    return (
        f"the topic has no journal: sowctl store repair {topic.name} saves the intact records and lists the lost ones"
    )


def add_rekey_hint(error: RefusedError, config: TopicConfig) -> None:
    """Set the hint for a store with other keys, which depends on whether the topic has a journal."""
    # Other differences, such as another instance's name, are not resolved by new keys.
    if not KEY_DEFINITION_FIELDS.intersection(error.facts.get("differences", ())):
        return
    former = "or restore the previous Key in the configuration"
    if config.journalled:
        error.hint = f"sowctl replay --rekey {config.name} gives the records their new keys; {former}"
    else:
        error.hint = (
            f"sowctl query {config.name} --meta > FILE, move the store away, then sowctl publish "
            f"--framing envelope < FILE; {former}"
        )


def make_not_kept_error(config: TopicConfig) -> RefusedError:
    """Return the error of a write that neither a store nor a journal would keep."""
    return RefusedError(
        "SOW-ENG-021",
        f"topic {config.name!r} is transient and has no journal: its messages would not be saved",
        hint="give it a FileName, or add it to the TransactionLog; --allow-volatile publishes anyway",
        topic=config.name,
    )

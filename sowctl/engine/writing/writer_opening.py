"""Opens a topic for writing: creates or rebuilds its store if necessary, and catches its memtable up with the journal.

:func:`open_writer` implements the recovery matrix (``behaviour`` 1.6): create, catch up, or rebuild.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from sowctl.engine.fold.tempstore import open_temporary_topic
from sowctl.engine.topics.positions import (
    add_rekey_hint,
    add_replay_hint,
    build_definition,
    make_not_covered_error,
    make_not_kept_error,
    open_log,
    refuse_unlogged_past,
)
from sowctl.engine.writing.topicwriter import StoreWriter
from sowctl.engine.writing.unapplied_entries import build_memtable
from sowctl.errors import DamageError, RefusedError
from sowctl.interrupts import allow_interrupts
from sowctl.store.env import Store

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.writer import JournalWriter


def open_writer(
    instance: Instance, config: TopicConfig, journal: JournalWriter | None, *, volatile: bool = False
) -> StoreWriter:
    """Open ``config`` for writing; with a journal, the caller holds its lock.

    A transient topic has a temporary store, built from the journal, which is removed with the writer. Raises
    RefusedError ``SOW-ENG-021`` (a transient topic that is not journalled, unless ``volatile`` is set), MissingError
    ``SOW-ENG-011`` (a missing store that the journals do not cover), DamageError.
    """
    assert instance.config is not None
    with ExitStack() as held:
        if config.file is None:
            # The temporary store is removed with the writer; messages published to it are in the journal, or lost.
            config = _make_temporary_topic(config, journal, volatile, held)
        with add_replay_hint(config):
            return _open_locked_writer(instance, config, journal, held)


def _open_locked_writer(
    instance: Instance, config: TopicConfig, journal: JournalWriter | None, held: ExitStack
) -> StoreWriter:
    assert instance.config is not None
    assert config.file is not None
    definition = build_definition(instance.config.name, config)
    # With a journal, commits of the store need no full sync: after a crash, the journal has lost changes. Without one,
    # messages are acknowledged by the store's synced transaction.
    durable = journal is None
    if config.durability == "persistent":
        from sowctl.engine.topics.storefile import refuse_reserved_file

        # Checked before anything is created: a FileName may be that of the configuration or a journal file by mistake.
        refuse_reserved_file(instance, config)
    # Created or rebuilt before it is opened, so that a writer always opens a complete store.
    if not config.file.exists():
        with allow_interrupts():  # it may take long
            _create_missing_store(instance, config, journal)
    try:
        store = Store.open(
            config.file,
            write=True,
            seam=instance.seam,
            lock_wait=instance.lock_wait,
            durable=durable,
            definition=definition,
            command=instance.holder,
            notify=instance.notify,
        )
    except RefusedError as error:
        add_rekey_hint(error, config)
        raise
    except DamageError:
        from sowctl.engine.topics.storefile import refuse_other_file

        refuse_other_file(instance, config)
        raise
    held.callback(store.close)
    if journal is not None:
        refuse_unlogged_past(config, store.read_meta(), journal.journal)
    # Caught up before the first message: whether a key is inserted or updated depends on the current records.
    with allow_interrupts():
        memtable = build_memtable(instance, config, store, journal)
    writer = StoreWriter(instance, config, store, memtable)
    if writer.expires:
        # Expired records are removed by the first transaction of the session, which is written anyway.
        writer.remove_expired_at = instance.now
    # From here on, the writer closes the store; after an earlier error, ``held`` closes it.
    writer.held = held.pop_all()
    return writer


def _make_temporary_topic(
    config: TopicConfig, journal: JournalWriter | None, volatile: bool, held: ExitStack
) -> TopicConfig:
    """Return a copy of a transient topic with a temporary file for its store."""
    if journal is None and not volatile:
        raise make_not_kept_error(config)
    return held.enter_context(open_temporary_topic(config, "transient"))


def _create_missing_store(instance: Instance, config: TopicConfig, journal: JournalWriter | None) -> None:
    """Create the store of a topic that has none, or rebuild it from the journals, starting at its RecoveryPoint."""
    assert config.file is not None
    assert instance.config is not None
    definition = build_definition(instance.config.name, config)
    config.file.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    ref = config.ref
    if journal is None or journal.find_topic_state(ref).last_txid == 0:
        from sowctl.store.builder import create_store

        try:
            create_store(
                config.file,
                definition,
                seam=instance.seam,
                now=instance.now,
                lineage=journal.lineage if journal is not None else bytes(16),
                # The position of the new store is the end of the journal, which has entries only of other topics.
                applied=journal.last_txid if journal is not None else 0,
                lock_wait=instance.lock_wait,
                command=instance.holder,
            )
        except RefusedError:
            if not config.file.exists():  # otherwise another process was faster, and its store is used
                raise
        return
    from sowctl.engine.fold.rebuild import rebuild_stores
    from sowctl.engine.keys.presentkeys import KeyCheck
    from sowctl.engine.sources.recovery import find_recovery_start, has_all_entries

    with open_log(instance) as log:
        start = find_recovery_start(config, log, instance)
        # If older files were removed, a rebuild would silently lose records. Only a replay may do that, on request.
        if config.durability == "persistent" and not has_all_entries(config, log, start):
            raise make_not_covered_error(config, log)
        if config.durability == "persistent":
            instance.notify(f"the store of topic {config.name!r} is missing: rebuilding it from the journals")
        rebuild_stores(instance, log, [config], after={ref: start}, check_of=partial(KeyCheck, instance))

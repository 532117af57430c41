"""A check of every byte of an instance's journal, compared with the positions of its stores and queues.

Called by ``check``, which checks stores, too, and by ``journal check``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sowctl.engine.topics.positions import find_highest_applied, list_store_positions, open_log, open_whole_log
from sowctl.engine.topics.queuestates import find_highest_synced, list_queue_positions
from sowctl.errors import ConfigError, SowError
from sowctl.journal.check import JournalCoverage, check_journal
from sowctl.journal.listing import find_files

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.engine.instance import Instance
    from sowctl.findings import Finding


def check_instance_journal(
    instance: Instance, coverage: JournalCoverage, directory: Path | None = None
) -> Iterator[Finding]:
    """Yield the findings for the journal, and fill ``coverage`` meanwhile.

    ``directory`` is another directory of the journal, which no store refers to. Raises ConfigError ``SOW-ENG-020``
    without a TransactionLog, MissingError ``SOW-JRN-001`` without a file, DamageError ``SOW-JRN-013`` if it had files
    before.
    """
    config, log = instance.config, instance.log
    if config is None or (log is None and directory is None):
        raise ConfigError("SOW-ENG-020", "this configuration has no TransactionLog")
    told = instance.build_watch("bytes of the journal") if instance.is_watched else None
    if directory is not None or log is None:
        assert directory is not None
        _require_journal_files(instance, directory)
        yield from check_journal(directory, config.name, seam=instance.seam, coverage=coverage, on_read=told)
        return
    _require_journal_files(instance, log.directory, log.moved_archive)
    # The positions of stores and queues prove how far the journal must go.
    states = list_queue_positions(instance)
    stores = list_store_positions(instance, [topic for topic in instance.topics if topic.journalled])
    try:
        with open_log(instance) as journal:
            lineage = journal.lineage
    except SowError:
        # No store and no queue has this lineage, so no position counts: the check below reports the errors of the
        # journal.
        lineage = b""
    yield from check_journal(
        log.directory,
        config.name,
        seam=instance.seam,
        acknowledged=max(find_highest_applied(lineage, stores), find_highest_synced(lineage, states)),
        coverage=coverage,
        archive=log.moved_archive,
        on_read=told,
    )


def _require_journal_files(instance: Instance, directory: Path, archive: Path | None = None) -> None:
    """Raise what opening a journal without files raises; the check below reports single missing files."""
    assert instance.config is not None
    if not find_files(directory, instance.config.name, archive):
        own = instance.log is not None and directory == instance.log.directory
        open_whole_log(instance, None if own else directory).close()

"""The journal of an instance for processes that move or remove its files: the maintenance lock, and the file list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sowctl.engine.topics.positions import open_log
from sowctl.errors import ConfigError
from sowctl.journal.maintenance.lock import hold_maintenance_lock
from sowctl.journal.maintenance.relocation import remove_hidden_files
from sowctl.journal.maintenance.survey import SurveyedFile, survey_files

if TYPE_CHECKING:
    from sowctl.config.model import InstanceConfig, TransactionLog
    from sowctl.engine.instance import Instance


def require_transaction_log(instance: Instance) -> tuple[InstanceConfig, TransactionLog]:
    """Return the configuration and its TransactionLog. Raises ConfigError ``SOW-ENG-020`` without one."""
    config, log = instance.config, instance.log
    if config is None or log is None:
        raise ConfigError("SOW-ENG-020", "this configuration has no TransactionLog")
    return config, log


def list_journal_files(instance: Instance) -> list[SurveyedFile]:
    """Return the files of the journal on this machine, after verifying its end: a journal that lost its end is not
    touched.

    Raises MissingError ``SOW-JRN-001``, and what reading the journal's end raises.
    """
    config, log = require_transaction_log(instance)
    with open_log(instance, whole=True) as journal:
        journal.read_last_txid()
    return survey_files(log.directory, config.name, instance.seam, log.moved_archive)


@contextmanager
def hold_journal_files(instance: Instance, *, dry_run: bool = False) -> Iterator[None]:
    """Hold the lock for moving and removing journal files during the block; unless ``dry_run``, remove leftovers of
    killed runs.

    Raises MissingError ``SOW-JRN-001`` without a journal, LockedError ``SOW-JRN-060``, StorageError ``SOW-JRN-021``.
    """
    config, log = require_transaction_log(instance)
    if not log.directory.is_dir():
        open_log(instance).close()  # raises: the directory is not created for a lock
    with hold_maintenance_lock(
        log.directory,
        config.name,
        seam=instance.seam,
        wait=instance.lock_wait,
        holder=instance.holder,
        now=instance.now,
        notify=instance.notify,
    ):
        archive = log.moved_archive
        if not dry_run:
            remove_hidden_files(log.directory, config.name)
        if not dry_run and archive is not None and archive.is_dir() and not archive.samefile(log.directory):
            remove_hidden_files(archive, config.name, archive=True)
        yield

"""The journal of an instance for who moves or removes its files: the one lock of that work, and the files as values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sowctl.engine.topics.positions import open_log
from sowctl.errors import ConfigError
from sowctl.journal.upkeep.lock import upkeep_lock
from sowctl.journal.upkeep.moving import forget_copies
from sowctl.journal.upkeep.survey import SurveyedFile, survey

if TYPE_CHECKING:
    from sowctl.config.model import InstanceConfig, TransactionLog
    from sowctl.engine.instance import Instance


def logged(instance: Instance) -> tuple[InstanceConfig, TransactionLog]:
    """The configuration and its TransactionLog. Raises ConfigError ``SOW-ENG-020`` where there is none."""
    config, log = instance.config, instance.log
    if config is None or log is None:
        raise ConfigError("SOW-ENG-020", "this configuration has no TransactionLog")
    return config, log


def files_of(instance: Instance) -> list[SurveyedFile]:
    """The files of the journal on this machine. Its end was judged: a journal that lost its end is left as it is.

    Raises MissingError ``SOW-JRN-001``, and what reading the journal's end raises.
    """
    config, log = logged(instance)
    with open_log(instance, whole=True) as journal:
        journal.last_txid()
    return survey(log.directory, config.name, instance.seam, log.archive_here)


@contextmanager
def looked_after(instance: Instance, *, dry_run: bool = False) -> Iterator[None]:
    """Alone in moving and removing files of the journal; what killed runs left is removed, not with ``dry_run``.

    Raises MissingError ``SOW-JRN-001`` without a journal, LockedError ``SOW-JRN-060``, StorageError ``SOW-JRN-021``.
    """
    config, log = logged(instance)
    if not log.directory.is_dir():
        open_log(instance).close()  # raises: the directory is not made for a lock
    with upkeep_lock(
        log.directory,
        config.name,
        seam=instance.seam,
        wait=instance.lock_wait,
        holder=instance.holder,
        now=instance.now,
        notify=instance.notify,
    ):
        archive = log.archive_here
        if not dry_run:
            forget_copies(log.directory, config.name)
        if not dry_run and archive is not None and archive.is_dir() and not archive.samefile(log.directory):
            forget_copies(archive, config.name, archive=True)
        yield

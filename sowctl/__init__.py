"""Toolkit for file-based State-of-the-World stores.

``sowctl.open("config.xml")`` and ``sowctl.create`` return the typed Python API, which the command line uses too; see
sowctl-python(7).
``.github/CONTRIBUTING.md`` describes the packages. Single modules:

* ``errors``: the exceptions of this program: code, exit status, place, hint.
* ``findings``: problems that checks report, as values.
* ``extras``: optional packages, and how to install the extra that includes one.
* ``seam``: all calls to the operating system and LMDB, replaceable in tests.
* ``directories``: creating and syncing directories.
* ``output_file``: output files that appear complete or not at all.
* ``work_directories``: temporary directories that are removed even after a kill.
* ``lockwait``: waiting for a lock of flock(2).
* ``interrupts``: delaying signals while locks and files are between two states.
* ``forked_process``: forks of this process that do a part of its work.
* ``open_files``: files kept open between operations, closed together.
* ``checksum``: CRC-32 by the processor's instructions.
* ``pcre``: the functions of PCRE2, the engine of patterns.
* ``structs``: Structs that ``help()`` can show.
* ``declarations``: declarations of options and operands at the fields of Structs.
* ``version``: the release of this program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.errors import (
    ConfigError,
    DamageError,
    InputError,
    LimitError,
    LockedError,
    MissingError,
    MissingPackageError,
    NegativeError,
    RefusedError,
    SowError,
    StorageError,
    UsageError,
    VersionError,
)
from sowctl.version import VERSION

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from sowctl.engine.api import (
        Blame,
        Differences,
        EvaluationLimits,
        Event,
        FieldOrigin,
        InstanceHandle,
        PublishOptions,
        QueueHandle,
        QueueMessage,
        RecordChange,
        Result,
        SchemaReport,
        SqlResult,
        StoredRecord,
        Subscription,
        TopicHandle,
        TopicSettings,
        VersionRecord,
    )
    from sowctl.engine.api.creation import NewTopic
    from sowctl.seam import Seam
    from sowctl.values.times import Clock

__version__ = VERSION

_API_NAMES = (
    "Blame",
    "Differences",
    "EvaluationLimits",
    "Event",
    "FieldOrigin",
    "InstanceHandle",
    "PublishOptions",
    "QueueHandle",
    "QueueMessage",
    "RecordChange",
    "Result",
    "SchemaReport",
    "SqlResult",
    "StoredRecord",
    "Subscription",
    "TopicHandle",
    "TopicSettings",
    "VersionRecord",
)
"""Names that are imported when a program uses them, or opens an instance."""

__all__ = [
    "Blame",
    "ConfigError",
    "DamageError",
    "Differences",
    "EvaluationLimits",
    "Event",
    "FieldOrigin",
    "InputError",
    "InstanceHandle",
    "LimitError",
    "LockedError",
    "MissingError",
    "MissingPackageError",
    "NegativeError",
    "PublishOptions",
    "QueueHandle",
    "QueueMessage",
    "RecordChange",
    "RefusedError",
    "Result",
    "SchemaReport",
    "SowError",
    "SqlResult",
    "StorageError",
    "StoredRecord",
    "Subscription",
    "TopicHandle",
    "TopicSettings",
    "UsageError",
    "VersionError",
    "VersionRecord",
    "__version__",
    "create",
    "open",
]


def __getattr__(name: str) -> object:
    if name not in _API_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sowctl.engine import api

    return getattr(api, name)


def open(  # noqa: A001 - the name users expect, as in dbm.open
    config: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    defines: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    seam: Seam | None = None,
    lock_wait: float = 10.0,
    random: Callable[[int], bytes] | None = None,
    notify: Callable[[str], None] | None = None,
    holder: str = "sowctl",
    limits: EvaluationLimits | None = None,
    client: str | None = None,
) -> InstanceHandle:
    """Open an instance by its configuration file, or by its directory with a sowctl.xml, amps.xml or config.xml.

    ``root`` is the base of relative paths in the file (default: the file's directory), ``environment`` (default: that
    of the process) and ``defines`` have the values of ``${VAR}``, ``lock_wait`` is in seconds, ``notify`` receives
    notes for people, ``holder`` is the name shown to processes that wait for a lock, and ``limits`` bound the cost of
    filters and other expressions (:class:`EvaluationLimits`; default: the bounds of sowctl-expressions(7)). ``clock``
    returns microseconds since 1970 UTC, ``random(n)`` returns n random bytes, and ``seam`` makes the calls to the
    operating system: tests replace these. ``client`` is recorded with publishes and deletes that name no client; it is
    not used to detect duplicates.

    All errors are raised as a :class:`SowError` with code, exit status, place and hint.
    """
    from sowctl.engine.api import InstanceHandle

    chosen = {"clock": clock, "seam": seam, "random": random, "notify": notify}
    given = {name: value for name, value in chosen.items() if value is not None}
    return InstanceHandle.open(
        config,
        root=root,
        environment=environment,
        defines=defines,
        lock_wait=lock_wait,
        holder=holder,
        limits=limits,
        client=client,
        **given,  # type: ignore[arg-type]  # each has the type of its parameter, which a dict cannot say
    )


def create(
    directory: str | os.PathLike[str],
    topics: Mapping[str, NewTopic],
    *,
    name: str | None = None,
    journal: str | os.PathLike[str] | None = "./journals",
    exist_ok: bool = False,
    clock: Clock | None = None,
    seam: Seam | None = None,
    lock_wait: float = 10.0,
    random: Callable[[int], bytes] | None = None,
    notify: Callable[[str], None] | None = None,
    holder: str = "sowctl",
    limits: EvaluationLimits | None = None,
    client: str | None = None,
) -> InstanceHandle:
    """Create an instance in a directory, and open it: write its first configuration, ``sowctl.xml``.

    ``topics`` maps the name of each topic to the path of its key field (``"/orderId"``), a list of such paths, None if
    publishers choose the keys, or a dict with ``key``, ``message_type``, ``expiration`` and ``history``
    (:class:`TopicSettings`). ``name`` is that of the instance (default: the directory's), ``journal`` the directory of
    the journals, None for an instance without a transaction log. All other parameters are those of :func:`open`.

    A directory with a configuration is rejected (RefusedError, ``SOW-CLI-035``). With ``exist_ok`` it is opened
    unchanged; MissingError is raised for a missing topic. Invalid topics raise UsageError and TypeError; no file is
    left then.
    """
    import os

    from sowctl.engine.api.creation import remove_config, require_topics, write_first_config
    from sowctl.remote.place import require_local_path
    from sowctl.seam import SEAM

    path, is_new = write_first_config(
        require_local_path(os.fspath(directory)),
        topics,
        name=name,
        journal=journal,
        exist_ok=exist_ok,
        seam=seam or SEAM,
    )
    try:
        instance = open(
            path,
            clock=clock,
            seam=seam,
            lock_wait=lock_wait,
            random=random,
            notify=notify,
            holder=holder,
            limits=limits,
            client=client,
        )
    except ConfigError as error:
        if is_new:
            remove_config(path, error)
        raise
    if not is_new:
        require_topics(instance, topics)
    return instance

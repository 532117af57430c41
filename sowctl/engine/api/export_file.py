"""Exporting records of queries to a file, to a file per topic, or to a database with a table per topic.

The format depends on the ending of the name, as for the command ``export``, which calls the same functions. Each topic
is written to a separate temporary file, and all are renamed at the end; a database is built from such files, in a
temporary directory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from sowctl.config.model import escape_file_name
from sowctl.engine.reports import ExportReport
from sowctl.engine.topics.targets import QUEUE_KINDS
from sowctl.errors import UsageError
from sowctl.output_file import FileStage, open_whole_file, refuse_existing, stage_files
from sowctl.remote.place import require_local_path
from sowctl.values.paths import fold_case

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.topics.targets import Target

SQLITE_ENDINGS = ("sqlite", "sqlite3", "db")
DUCKDB_ENDING = "duckdb"
TOPIC_FIELD = "{topic}"
"""The placeholder for the name of the topic in a file name."""
DEFAULT_FORMAT = "ndjson"
"""The ending of the files in a directory."""


class ExportOptions(Struct, frozen=True):
    """``meta``: with columns of metadata; ``overwrite``: replace a file, with ``add`` a table; ``add``: add to an
    existing database; ``hint`` says how to overwrite."""

    meta: bool = False
    overwrite: bool = False
    add: bool = False
    hint: str = "pass overwrite=True to replace it"


def export_records(
    instance: Instance,
    target: Target,
    name: str,
    path: Path,
    options: QueryOptions,
    writing: ExportOptions,
) -> ExportReport:
    """Write the records of a target, whose topic has this ``name``, to a file, which is written completely or not at
    all.

    Raises RefusedError ``SOW-CLI-011`` if ``path`` exists, unless it may be overwritten; UsageError ``SOW-EXC-002`` for
    an unknown ending; MissingPackageError ``SOW-EXC-001``; and what the query raises.
    """
    with _stage(instance, writing) as files:
        report = _stage_records(instance, target, name, path, options, writing, files)
    return _measure_file(report)


def _stage(instance: Instance, writing: ExportOptions) -> AbstractContextManager[FileStage]:
    return stage_files(force=writing.overwrite, seam=instance.seam, hint=writing.hint)


def _measure_file(report: ExportReport) -> ExportReport:
    """Return the report of a file with its size, after it was renamed."""
    return replace(report, file_bytes=Path(report.path).stat().st_size)


def _stage_records(
    instance: Instance,
    target: Target,
    name: str,
    path: Path,
    options: QueryOptions,
    writing: ExportOptions,
    files: FileStage,
) -> ExportReport:
    """Write the records of a target to one of ``files``; its size is not known yet."""
    if is_database(path) and (writing.add or _is_duckdb(path)):
        return _stage_database(instance, [target], path, options, writing, files)
    from sowctl.engine.verbs.query import start_query
    from sowctl.output.exports import Export

    refuse_existing(path, force=writing.overwrite, hint=writing.hint)
    writer = Export(str(path), name, meta=writing.meta)
    with closing(start_query(instance, [target], options)) as result, files.open(path) as stream:
        written = writer.write(result, stream)
    return ExportReport(str(path), written.records, 0, written.notes, warnings=written.warnings)


def is_database(path: Path) -> bool:
    """Return whether the ending of a file is that of a database, which has a table for each topic."""
    return path.suffix.lower().removeprefix(".") in (*SQLITE_ENDINGS, DUCKDB_ENDING)


def _is_duckdb(path: Path) -> bool:
    return path.suffix.lower() == f".{DUCKDB_ENDING}"


def is_directory(text: str) -> bool:
    """Return whether a name means a file per topic: the name of a directory, or one with ``{topic}``."""
    return text.endswith("/") or TOPIC_FIELD in text or Path(text).is_dir()


def select_exported(instance: Instance, targets: Sequence[Target], at: int | None) -> list[Target]:
    """Return the targets that can be exported as of ``at``: of several, queues are omitted, with a note."""
    kept = [one for one in targets if one.topic is None or one.topic.derived is None or not _is_queue(one.topic)]
    if at is None or len(targets) == 1 or len(kept) == len(targets):
        return list(targets)
    names = ", ".join(one.topic.label for one in targets if one.topic is not None and one not in kept)
    instance.notify_once("queues at an instant", f"queues are left out, as their past states are unknown: {names}")
    return kept


def _is_queue(topic: TopicConfig) -> bool:
    return topic.derived is not None and topic.derived.kind in QUEUE_KINDS


def name_topics(targets: Sequence[Target]) -> list[str]:
    """Return a name for the records of each target, with the type if several topics have the same name.

    Raises UsageError ``SOW-EXC-026`` for names that differ only in case, which SQLite and some file systems ignore.
    """
    labels = Counter(target.topic.label for target in targets if target.topic is not None)
    found = []
    for target in targets:
        topic = target.topic
        if topic is None:
            assert target.path is not None
            found.append(target.path.stem)
        else:
            found.append(topic.label if labels[topic.label] == 1 else f"{topic.label}.{topic.message_type}")
    folded = {fold_case(name): name for name in found}
    if len(folded) < len(found):
        names = next(name for name in found if folded[fold_case(name)] != name or found.count(name) > 1)
        words = f"another topic has the name {names!r}, or one that differs only in case"
        raise UsageError("SOW-EXC-026", words, hint="export these topics separately")
    return found


def export_targets(
    instance: Instance,
    targets: Sequence[Target],
    place: str,
    options: QueryOptions,
    writing: ExportOptions,
    format: str | None = None,
) -> list[ExportReport]:
    """Write targets to files in a directory, or to a database; a single target to a file of any format.

    Raises as :func:`export_files`, :func:`export_database` and :func:`export_records`, and UsageError ``SOW-EXC-013``
    for several targets and a file for one topic.
    """
    if is_directory(place):
        return export_files(instance, targets, place, options, writing, format)
    if format is not None:
        raise UsageError("SOW-EXC-010", "the end of the file name selects the format", hint="leave out --format")
    path = require_local_path(place)
    if len(targets) > 1 and is_database(path):
        return [export_database(instance, targets, path, options, writing)]
    from sowctl.output.exports import refuse_mixed_topics

    refuse_mixed_topics(targets, place)
    return [export_records(instance, targets[0], name_topics(targets)[0], path, options, writing)]


def export_files(
    instance: Instance,
    targets: Sequence[Target],
    place: str,
    options: QueryOptions,
    writing: ExportOptions,
    format: str | None = None,
) -> list[ExportReport]:
    """Write each target to a separate file: ``place`` with the name of the topic instead of ``{topic}``.

    In a directory, which is created if missing, files are named ``TOPIC.FORMAT``. All names are checked before the
    first file is written, and all files are installed together: if one cannot be written, none is, and none is
    replaced. Tables added to databases before an error stay. Raises UsageError ``SOW-EXC-010`` for a ``format``
    together with ``{topic}``, and as :func:`export_records`.
    """
    from sowctl.output.exports import Export

    if TOPIC_FIELD not in place:
        place = f"{place.rstrip('/') or '/'}/{TOPIC_FIELD}.{(format or DEFAULT_FORMAT).removeprefix('.')}"
    elif format is not None:
        raise UsageError("SOW-EXC-010", "the end of the file name selects the format", hint="leave out --format")
    names = name_topics(targets)
    paths = [require_local_path(place.replace(TOPIC_FIELD, escape_file_name(name))) for name in names]
    for name, path in zip(names, paths, strict=True):
        refuse_existing(path, force=writing.overwrite, hint=writing.hint)
        if not _is_duckdb(path):
            Export(str(path), name, meta=writing.meta)
    with _create_directories({path.parent for path in paths}), _stage(instance, writing) as files:
        reports = [
            _stage_records(instance, target, name, path, options, writing, files)
            for target, name, path in zip(targets, names, paths, strict=True)
        ]
    return list(map(_measure_file, reports))


@contextmanager
def _create_directories(directories: Iterable[Path]) -> Iterator[None]:
    """Create missing directories with their parents; after an error, remove those that are empty."""
    made: list[Path] = []
    try:
        for directory in sorted(directories):
            made += reversed([one for one in (directory, *directory.parents) if not one.exists()])
            directory.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for one in reversed(made):
            # It is not empty if something else has written to it.
            with suppress(OSError):
                one.rmdir()
        raise


def export_database(
    instance: Instance, targets: Sequence[Target], path: Path, options: QueryOptions, writing: ExportOptions
) -> ExportReport:
    """Write a database with a table for each target, named like its topic; it is written completely or not at all.

    With ``add``, the tables are added to an existing database, in one transaction; a table of the same name is replaced
    if it may be overwritten, all others stay. Raises RefusedError ``SOW-CLI-011`` for an existing file and
    ``SOW-EXC-027`` for an existing table, ``SOW-EXC-028`` if the database cannot be changed, MissingPackageError
    ``SOW-EXC-001``, and what the queries raise.
    """
    with _stage(instance, writing) as files:
        report = _stage_database(instance, targets, path, options, writing, files)
    return _measure_file(report)


def _stage_database(
    instance: Instance,
    targets: Sequence[Target],
    path: Path,
    options: QueryOptions,
    writing: ExportOptions,
    files: FileStage,
) -> ExportReport:
    """Write a database to one of ``files``, whose size is not known yet; with ``add``, add its tables immediately."""
    from sowctl.engine.verbs.query import start_query
    from sowctl.output.exports import Export
    from sowctl.work_directories import create_work_directory

    adds = writing.add and path.exists()
    if not adds:
        refuse_existing(path, force=writing.overwrite, hint=writing.hint)
    by_duckdb = _is_duckdb(path)
    database: Any = _load_duckdb_file() if by_duckdb else _load_sqlite_file()
    names = name_topics(targets)
    if adds and not writing.overwrite:
        # Checked now, and again when they are added, because the queries may take long.
        database.refuse_tables(path, names)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    records = 0
    form = "parquet" if by_duckdb else "sqlite"
    # All names are checked before the first topic is read.
    writers = [Export(f"x.{form}", name, meta=writing.meta) for name in names]
    with create_work_directory() as directory:
        parts: list[tuple[str, Path]] = []
        for number, (target, name, writer) in enumerate(zip(targets, names, writers, strict=True)):
            part = directory / f"{number}.{form}"
            with closing(start_query(instance, [target], options)) as result, part.open("wb") as stream:
                written = writer.write(result, stream)
            records += written.records
            notes += written.notes
            warnings += written.warnings
            parts.append((name, part))
        made = directory / f"whole{path.suffix}"
        database.build_database(made, parts)
        if adds:
            database.add_tables(path, made, names, overwrite=writing.overwrite)
        else:
            with made.open("rb") as whole, files.open(path) as stream:
                copyfileobj(whole, stream, 1 << 20)
    return ExportReport(str(path), records, 0, notes, warnings=warnings)


def _load_duckdb_file() -> Any:
    from sowctl.arrow.requirements import require_packages

    require_packages("the format duckdb", "duckdb", "pyarrow")
    from sowctl.engine.tables import duckdb_file

    return duckdb_file


def _load_sqlite_file() -> Any:
    from sowctl.arrow import sqlite_tables

    return sqlite_tables


def export_changes(
    instance: Instance,
    target: Target,
    name: str,
    path: Path,
    options: QueryOptions,
    since: str | None,
    not_found: str | None,
    *,
    overwrite: bool,
) -> ExportReport:
    """Write the changes of a target after a position to a file. Raises UsageError ``SOW-EXC-019`` for a target without
    changes or for options that do not apply to them, and as :func:`export_records`."""
    from sowctl.engine.verbs.changes import NO_FEED_CODE, start_changes
    from sowctl.output.exports import Export

    hint = "pass overwrite=True to replace it"
    names = ("at", "order_by", "top_n", "skip_n")
    wrong = next((name for name in names if getattr(options, name) is not None), "fresh" if options.fresh else None)
    if wrong is not None:
        raise UsageError(NO_FEED_CODE, f"{wrong} and changes exclude each other", hint=f"remove {wrong}")
    refuse_existing(path, force=overwrite, hint=hint)
    writer = Export(str(path), name, meta=True, changes=True)
    result = start_changes(instance, target, options, since or "0", not_found)
    with open_whole_file(path, force=overwrite, seam=instance.seam, hint=hint) as stream:
        written = writer.write(result, stream)
    size = path.stat().st_size
    return ExportReport(str(path), written.records, size, written.notes, result.txid, result.bookmark)

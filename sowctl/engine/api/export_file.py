"""Records of a query in a file: the format is that of its name's ending, as for the command ``export``."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.reports import ExportReport
from sowctl.errors import UsageError
from sowctl.output_file import open_whole_file, refuse_existing

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.topics.targets import Target


def export_records(
    instance: Instance, target: Target, name: str, path: Path, options: QueryOptions, *, meta: bool, overwrite: bool
) -> ExportReport:
    """Write the records of a target, whose topic has this ``name``, to a file, which appears complete or not at all.

    Raises RefusedError ``SOW-CLI-011`` where ``path`` exists, unless ``overwrite``; UsageError ``SOW-EXC-002`` for an
    unknown ending; MissingPackageError ``SOW-EXC-001``; and what the query raises.
    """
    from sowctl.engine.verbs.query import start_query
    from sowctl.output.exports import Export

    hint = "pass overwrite=True to replace it"
    refuse_existing(path, force=overwrite, hint=hint)
    writer = Export(str(path), name, meta=meta)
    with (
        closing(start_query(instance, [target], options)) as result,
        open_whole_file(path, force=overwrite, seam=instance.seam, hint=hint) as stream,
    ):
        written = writer.write(result, stream)
    return ExportReport(str(path), written.records, path.stat().st_size, written.notes)


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
    """Write the changes of a target after a position to a file. Raises UsageError ``SOW-EXC-019`` for what has no
    changes or for options that these do not have, and as :func:`export_records` does."""
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

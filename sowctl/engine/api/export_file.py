"""Records of a query in a file: the format is that of its name's ending, as for the command ``export``."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.reports import ExportReport
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

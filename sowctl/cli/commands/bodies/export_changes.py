"""``export --changes``: write the changes of the records of a topic since a position to a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.cli.io.report_output import show_words
from sowctl.engine.options import SubscribeOptions
from sowctl.engine.topics.patterns import has_records
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.changes import NO_FEED_CODE, start_changes
from sowctl.engine.verbs.query import report_unknown_fields
from sowctl.errors import InputError, UsageError
from sowctl.output.display import escape_line
from sowctl.output.exports import Export
from sowctl.output.replaced_bytes import REPLACED_CODE, REPLACED_HINT
from sowctl.output_file import open_whole_file
from sowctl.values.display import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from sowctl.cli.commands.bodies.subscribe import FollowedTopics
    from sowctl.cli.context import Invocation
    from sowctl.cli.parsing.place_options import PlaceOptions
    from sowctl.engine.options import QueryOptions


def export_changes(
    invocation: Invocation,
    file: str,
    followed: FollowedTopics,
    options: QueryOptions,
    start: SubscribeOptions,
    place: PlaceOptions,
    *,
    overwrite: bool,
    summary: str | None,
) -> int:
    """Write the changes and, if requested, store the position after them once the file is complete.

    Raises UsageError ``SOW-EXC-019`` for a topic without changes, and the errors of positions and bookmark stores.
    """
    from sowctl.cli.commands.bodies.places import hold_place
    from sowctl.cli.lookup import apply_unknown

    (target,), path = followed.names, Path(file)
    started = time.monotonic()
    with invocation.open_instance(target) as instance:
        targets = resolve_targets(instance, target, followed.message_type, literal=followed.literal, derived=True)
        if len(targets) != 1:
            words = f"--changes is for one topic, and {target!r} means {len(targets)}"
            raise UsageError(NO_FEED_CODE, words, hint="write one file per topic")
        topic = targets[0].topic
        label = target if topic is None else topic.label
        writer = Export(file, label, meta=True, changes=True)
        asked = SubscribeOptions(filter=options.filter, bookmark=start.bookmark, sow=False)
        topics = [] if topic is None else [topic]
        with hold_place(invocation, instance, place, topics, target, asked) as (asked, places):
            result = start_changes(instance, targets[0], options, asked.bookmark or "0", start.bookmark_not_found)
            if topic is not None and has_records(instance, topic):
                report_unknown_fields(
                    instance, targets, apply_unknown(invocation, options, None, strict=followed.strict)
                )
            with open_whole_file(path, force=overwrite, seam=invocation.seam) as stream:
                written = writer.write(result, stream)
            if places is not None:
                # The file is complete and durable: its changes are not exported again.
                places.note_exported(result.txid)
    if place.store is not None and not place.commit:
        invocation.note("the position is not stored: add --commit, so that the next run continues here")
    for note in written.notes:
        invocation.note(note)
    for warning in written.warnings:
        invocation.warn(warning, code=REPLACED_CODE, hint=REPLACED_HINT)
    seconds, size = time.monotonic() - started, path.stat().st_size
    counts = {name: result.counts.get(name, 0) for name in ("insert", "update_postimage", "delete")}
    told = f"{counts['insert']:,} inserted, {counts['update_postimage']:,} updated, {counts['delete']:,} deleted"
    words = f"{escape_line(file)}: {format_count(written.records, 'row')}: {told}; {format_bytes(size)}"
    row = {"file": file, "topics": [label], "records": written.records, "bytes": size}
    row |= {"inserted": counts["insert"], "updated": counts["update_postimage"], "deleted": counts["delete"]}
    row |= {"next_txid": result.txid, "next_bookmark": result.bookmark, "seconds": round(seconds, 6)}
    words += f" in {format_duration(seconds)}; next: --since {result.txid}"
    show_words(invocation, words, row, summary)
    return InputError.exit_status if written.warnings else 0

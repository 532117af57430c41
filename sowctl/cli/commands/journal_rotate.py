"""``sowctl journal rotate``: finish the active journal file and start a new one."""

from __future__ import annotations

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Summary
from sowctl.engine.options import DryRun

EXAMPLES = (
    "sowctl journal rotate --dry-run",
    "sowctl journal rotate --json",
)


class JournalRotateArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl journal rotate``."""

    dry_run: DryRun = False
    summary: Summary = None


def run(invocation: Invocation, arguments: JournalRotateArguments) -> int:
    """Finish the active journal file and start a new one.

    Commands that compress, archive or remove journal files leave the active file alone, and a file is finished only
    when it has the JournalSize. This command finishes it earlier, so that journal compress, journal archive and journal
    prune can take it. No entry is changed, and publishers can go on: the new file is started under the lock of the
    journal, as when a file is full. An interrupted run leaves the old file or both.

    A file without entries is not finished; the exit status is 0.
    """
    from sowctl.cli.io.report_output import show_words
    from sowctl.engine.maintenance.retention.rotation import rotate_journal
    from sowctl.output.display import escape_line
    from sowctl.output.reports import as_dict
    from sowctl.values.display import format_bytes

    with invocation.open_instance() as instance:
        done = rotate_journal(instance, dry_run=arguments.dry_run)
    if done is None:
        show_words(
            invocation, "the active file has no entries yet; it stays active", {"rotated": False}, arguments.summary
        )
        return 0
    row = {"rotated": not arguments.dry_run} | as_dict(done)
    verb = "would finish" if arguments.dry_run else "finished"
    txids = f"txids from {done.first_txid}" + ("" if done.last_txid is None else f" to {done.last_txid}")
    words = f"{verb} {escape_line(str(done.path))}: {txids}, {format_bytes(done.size)}"
    show_words(invocation, f"{words}; next file: {escape_line(done.next_path.name)}", row, arguments.summary)
    return 0

"""``sowctl journal repair``: make a damaged journal readable, and report its gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice, Yes
from sowctl.declarations import declare_part
from sowctl.engine.options import DryRun
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.engine.maintenance.retention.journal_repair import JournalRepair

EXAMPLES = (
    "sowctl journal repair --dry-run",
    "sowctl journal repair --yes --format json",
)


class JournalRepairArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl journal repair``."""

    dry_run: DryRun = False
    yes: Yes = False
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: JournalRepairArguments) -> int:
    """Cut unreadable parts out of the journal, and list them. Intact data is not changed.

    A torn end, as left by an interrupted append, is copied to FILE.torn-N and cut off. A damaged range, or a lost end,
    is replaced by a gap that keeps its txids; its bytes are saved to FILE.cut-N, with a receipt in the first line. From
    then on, all commands skip the gap and report it. Stores that have applied these entries keep them; stores rebuilt
    from the journal lack them.

    If you have a copy of the damaged files, restore them from it instead. Compressed files and file headers cannot be
    repaired. The file is rewritten to a temporary file, synced, compared and renamed, so the command can be interrupted
    at any time. On a terminal, it asks for confirmation; otherwise --yes is required. The exit status is 5 if damage
    remains.
    """
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.maintenance.retention.journal_repair import repair_journal

    sink = Sink(invocation, arguments.output, facts=True)
    ask = not arguments.dry_run and invocation.streams.must_confirm(yes=arguments.yes)
    with invocation.open_instance() as instance:
        if ask:
            found = repair_journal(instance, dry_run=True)
            if found.gaps or found.tail is not None:
                torn = (
                    f", and {format_count(found.tail.size, 'torn byte')} at the end" if found.tail is not None else ""
                )
                invocation.streams.confirm(
                    f"cut {format_count(len(found.gaps), 'damaged part')} out of the journal{torn}"
                )
        done = repair_journal(instance, dry_run=arguments.dry_run)
    sink.write_rows(_build_rows(done))
    for finding in done.left:
        invocation.warn(finding.message, code=finding.id, place=str(finding.place), hint=finding.hint)
    if not done.gaps and done.tail is None and not done.left:
        invocation.note("no damage found; nothing was changed")
    return 5 if done.left else 0


def _build_rows(done: JournalRepair) -> list[dict[str, object]]:
    from sowctl.output.reports import as_dict

    rows: list[dict[str, object]] = [{"what": "gap"} | as_dict(gap) | {"dry_run": done.dry_run} for gap in done.gaps]
    tail = done.tail
    if tail is not None:
        rows.append(
            {
                "what": "torn tail" if tail.size else "unfinished group",
                "path": str(tail.path),
                "offset": tail.offset,
                "size": tail.size,
                "first_txid": tail.open_group or None,
                "last_txid": tail.last_txid if tail.open_group else None,
                "topics": None,
                "reason": tail.text,
                "receipt": None if tail.copy is None else str(tail.copy),
                "dry_run": done.dry_run,
            }
        )
    return rows

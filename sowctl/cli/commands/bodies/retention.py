"""Shared code of commands on files: rules from options, reports in words, actions as rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from sowctl.cli.parsing.option_values import parse_bytes, parse_interval, parse_position
from sowctl.engine.maintenance.retention.prune import KeepRule
from sowctl.output.display import escape_line
from sowctl.output.options import TableFit
from sowctl.output.reports import as_dict, encode_report
from sowctl.values.display import format_ago, format_bytes, format_count
from sowctl.values.times import format_time
from sowctl.values.units import parse_whole_number

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.instance import Instance
    from sowctl.engine.maintenance.retention.actions import PlannedAction, StepReport
    from sowctl.engine.maintenance.retention.prune import HeldFiles, PruneReport


ROTATE_HINT = "sowctl journal rotate finishes it"
"""How to finish the active file, so that it can be compressed, archived or removed."""


def build_prune_rule(
    invocation: Invocation, instance: Instance, keep_for: str | None, keep_size: str | None, before: str | None
) -> KeepRule:
    """Build the retention rule from the one text that is given. Raises UsageError, and MissingError ``SOW-ENG-070``."""
    age = parse_interval("--keep-for", keep_for)
    if keep_for is not None and parse_whole_number(keep_for.strip()):
        # As in a configuration, a number alone counts seconds; days are meant more often, and files are removed.
        invocation.note(f"--keep-for {keep_for} is {keep_for} seconds; give a unit, for example {keep_for}d")
    place = parse_position(invocation, before).resolve(instance)
    return KeepRule(
        keep_for=None if age is None else int(age * 1_000_000),
        keep_size=parse_bytes("--keep-size", keep_size),
        before_txid=place.txid,
        before_time=place.time,
    )


def has_finished_files(instance: Instance) -> bool:
    """True if the journal has files other than the active one, which these commands never touch."""
    from sowctl.engine.maintenance.retention.journals import list_journal_files

    return any(file.is_finished for file in list_journal_files(instance))


def list_files(invocation: Invocation, sink: Sink, instance: Instance, files: Iterator[Any], done: str) -> None:
    """List files as each is ``done``, a participle; print a note if there was none, because an empty list is silent."""
    first = next(files, None)
    sink.write_rows(map(as_dict, files if first is None else chain((first,), files)))
    if first is None:
        why = f"no finished file is old enough and not yet {done}"
        if not has_finished_files(instance):
            why = f"the journal has only its active file, which is never {done}; {ROTATE_HINT}"
        invocation.note(f"no file was {done}: {why}")


def report_pruned(invocation: Invocation, report: PruneReport, summary: str | None, *, has_finished: bool) -> None:
    """Print the removed files, the needs that retain others, and the past that is no longer available: as one line of
    JSON on standard output with ``--summary json``, else in words."""
    if summary == "json":
        invocation.streams.stdout.write(encode_report(report).encode() + b"\n")
        return
    say = invocation.streams.write_stderr if summary == "text" else invocation.note
    for held in report.held:
        say(_format_held_files(held))
    for lost in report.past:
        from_there = lost.first_instant or "an unknown instant"
        would = "would be" if report.dry_run else "are"
        say(f"past states of topic {escape_line(lost.topic)} {would} available from {from_there} on")
    would = "would be removed" if report.dry_run else "removed"
    if not report.files:
        why = "" if has_finished else f": the journal has only its active file, which is never removed; {ROTATE_HINT}"
        say(f"no file to remove{why}")
    else:
        files = format_count(len(report.files), "file")
        say(
            f"{report.removed:,} of {files} {would}, {format_bytes(report.bytes)}; the first txid "
            f"{'would be' if report.dry_run else 'is'} {report.first_txid}"
        )


def _format_held_files(held: HeldFiles) -> str:
    text = f"{escape_line(held.holder)} needs the files from {held.number:010d} on: {escape_line(held.why)}"
    return text if held.release is None else f"{text}; to release them: {escape_line(held.release)}"


class RecordDeleter:
    """Deletes records for actions: calls the verb, which the layer of actions must not import."""

    def delete(self, instance: Instance, topic: str, message_type: str, filter: str, *, dry_run: bool) -> int:
        """Delete records of the topics of a name or pattern; return their number, or with ``dry_run`` that of
        matches."""
        from sowctl.engine.options import DeleteOptions
        from sowctl.engine.topics.targets import resolve_targets
        from sowctl.engine.verbs.delete import delete_records

        targets = resolve_targets(instance, topic, message_type or None)
        reports = delete_records(instance, targets, DeleteOptions(filter=filter, dry_run=dry_run))
        return sum(report.matched if dry_run else report.deleted for report in reports)


def build_step_row(report: StepReport) -> dict[str, Any]:
    """Return the row of one step of a due action."""
    did = report.did
    counts = {"files": did.files, "bytes": did.bytes, "records": did.records}
    return {"action": report.action, "name": report.name, "step": report.step, "outcome": report.outcome} | counts


ACTIONS_FIT = TableFit(spare=("action", "last", "steps"), state="next")
"""Columns of an action for people that a narrow terminal may drop."""


def build_person_action_row(action: PlannedAction, now: int) -> dict[str, Any]:
    """An action for a terminal: the time since its last run, and the time until the next, or that it is due."""
    row = build_action_row(action, now)
    due = action.find_due_time(now) if action.is_supported else None
    del row["due"]
    row["last"] = format_ago((now - action.last.ran) / 1e6) if action.last.ran else None
    row["next"] = None if due is None else "due" if due <= now else format_ago((now - due) / 1e6)
    return row


def build_action_row(action: PlannedAction, now: int) -> dict[str, Any]:
    """An action: its schedule, its last and next run, its steps."""
    from sowctl.engine.maintenance.retention.actions import ACTION_PREFIX, STEP_FUNCTIONS, USAGE_CONDITION

    here = [
        name if step.module in STEP_FUNCTIONS or step.module == USAGE_CONDITION else f"[{name}]"
        for step in action.steps
        if (name := step.module.removeprefix(ACTION_PREFIX))
    ]
    due = action.find_due_time(now) if action.is_supported else None
    return {
        "action": action.number,
        "name": action.name,
        "schedule": ", ".join([one.text for one in action.schedules] + [f"[{name}]" for name in action.events]),
        "last": format_time(action.last.ran) if action.last.ran else None,
        "next": format_time(max(due, now)) if due is not None else None,
        "due": due is not None and due <= now,
        "steps": ", ".join(here),
        "problem": action.last.problem,
    }

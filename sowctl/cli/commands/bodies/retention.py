"""What the commands that remove journal files share: the rule from options, and the report in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.cli.words.when import position, seconds, size
from sowctl.engine.upkeep.retention.pruning import Retention
from sowctl.output.display import display
from sowctl.output.reports import as_json
from sowctl.output.reports import size as sized

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.engine.instance import Instance
    from sowctl.engine.upkeep.retention.pruning import Held, PruneReport


def prune_rule(
    invocation: Invocation, instance: Instance, keep_for: str | None, keep_size: str | None, before: str | None
) -> Retention:
    """What is to be kept, of which one text is given. Raises UsageError, MissingError ``SOW-ENG-070``."""
    age = seconds("--keep-for", keep_for)
    place = position(invocation, before).found(instance)
    return Retention(
        keep_for=None if age is None else int(age * 1_000_000),
        keep_size=size("--keep-size", keep_size),
        before_txid=place.txid,
        before_time=place.time,
    )


def say_pruned(invocation: Invocation, report: PruneReport, summary: str | None) -> None:
    """Say what was removed, who keeps what, and which past can be asked for no more: as one line of JSON on standard
    output with ``--summary json``, else in words."""
    if summary == "json":
        invocation.streams.stdout.write(as_json(report).encode() + b"\n")
        return
    say = invocation.streams.talk if summary == "text" else invocation.note
    for held in report.held:
        say(_kept(held))
    for lost in report.past:
        from_there = lost.first_instant or "an instant that is not known"
        would = "would be" if report.dry_run else "are"
        say(f"past states of topic {display(lost.topic)} {would} known from {from_there} on")
    would = "would be removed" if report.dry_run else "removed"
    if not report.files:
        say("no file is to go")
    else:
        say(
            f"{report.removed:,} of {len(report.files):,} files {would}, {sized(report.bytes)}; the first txid "
            f"{'would be' if report.dry_run else 'is'} {report.first_txid}"
        )


def _kept(held: Held) -> str:
    text = f"{display(held.holder)} keeps the files from {held.number:010d} on: {display(held.why)}"
    return text if held.release is None else f"{text}; to let go: {display(held.release)}"

"""The supported Actions of a configuration: finding the due ones, and running their steps.

The steps of an action run in the order of the file; a false If or a failed step ends the action. Steps on files are
executed; a step that has a meaning only in a server is reported, and ends the action if later steps may depend on it.
Each run is recorded when it ends, so that one command every few minutes replaces the server's schedule. Called by
``sowctl upkeep``. Specified in ``sow-upkeep(5)`` and ``sow-config(5)``, actions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import replace
from xxhash import xxh3_128_hexdigest

from sowctl.config.schedule import Schedule, parse_every
from sowctl.engine.maintenance.retention import action_log
from sowctl.engine.maintenance.retention.action_log import ActionState, find_actions_path
from sowctl.errors import ConfigError, MissingError, SowError
from sowctl.structs import DescribedStruct
from sowctl.values.times import Micros, format_time
from sowctl.values.units import parse_interval

if TYPE_CHECKING:
    from sowctl.config.actions import ActionStep
    from sowctl.engine.instance import Instance

ACTION_PREFIX = "amps-action-"
SCHEDULE_EVENT = "amps-action-on-schedule"
StepOutcome = Literal["done", "would be done", "left to a server", "condition is false", "failed"]


class ActionVerbs(Protocol):
    """The verbs that steps call; verbs are in a higher layer."""

    def delete(self, instance: Instance, topic: str, message_type: str, filter: str, *, dry_run: bool) -> int:
        """Delete the records that match a filter in the topics of this name or pattern; return their number."""
        ...


class StepResult(Struct):
    """The result of a step: files moved, removed or made smaller; bytes moved or freed; records; ``notes``."""

    files: int = 0
    bytes: int = 0
    records: int = 0
    notes: list[str] = field(default_factory=list)


class StepReport(Struct, frozen=True):
    """One step of a due action. ``step`` is the module without its prefix."""

    action: int
    name: str
    step: str
    outcome: StepOutcome
    did: StepResult
    error: SowError | None = None


class PlannedAction(DescribedStruct, frozen=True):
    """An action: its ``number`` in the file, from 1; ``key`` identifies it in the saved rows. ``events`` are those of a
    server that start it besides ``schedules``; ``is_supported`` is true if this program executes at least one of its
    steps."""

    number: int
    name: str
    key: str
    schedules: tuple[Schedule, ...]
    events: tuple[str, ...]
    steps: tuple[ActionStep, ...]
    last: ActionState

    @property
    def is_supported(self) -> bool:
        """True if this program executes any of its steps."""
        return bool(self.schedules) and any(step.module in STEP_FUNCTIONS for step in self.steps)

    def find_due_time(self, now: Micros) -> Micros | None:
        """Return when the action runs next: at most ``now`` if it is due; None if no schedule starts it."""
        return min((one.find_due_time(self.last.ran, now) for one in self.schedules), default=None)


def list_actions(instance: Instance) -> list[PlannedAction]:
    """Return the actions of the configuration with their last runs. Raises ConfigError ``SOW-UPK-007`` for an invalid
    schedule, and what reading the file raises."""
    config = instance.config
    assert config is not None
    known = action_log.read_rows(find_actions_path(instance), instance)
    found, same = [], Counter[str]()
    for number, action in enumerate(config.actions, 1):
        parts = repr([(step.kind, step.module, step.options) for step in action.steps])
        # Identified by its steps and not by its number: inserting an action before it does not make it due.
        key = xxh3_128_hexdigest(f"{parts} {same[parts]}".encode("utf-8", "surrogateescape"))
        same[parts] += 1
        on = [step for step in action.steps if step.kind == "On"]
        timed = [step for step in on if step.module == SCHEDULE_EVENT]
        found.append(
            PlannedAction(
                number,
                next((name for step in timed if (name := dict(step.options).get("Name"))), f"action {number}"),
                key,
                tuple(map(_parse_schedule, timed)),
                tuple(_shorten_module(step) for step in on if step.module != SCHEDULE_EVENT),
                tuple(step for step in action.steps if step.kind != "On"),
                known.get(key, ActionState("")),
            )
        )
    return found


def run_actions(instance: Instance, verbs: ActionVerbs, *, dry_run: bool = False) -> Iterator[StepReport]:
    """Run the actions that are due, in the order of the file; yield the report of each step when it is done.

    A failed action does not prevent others from running, and is due again. Raises LockedError ``SOW-UPK-006``,
    StorageError ``SOW-UPK-004``, ConfigError ``SOW-UPK-007``.
    """
    path = find_actions_path(instance)
    if dry_run:
        for action in list_actions(instance):
            yield from _run_steps(instance, action, verbs, dry_run=True) if _is_due(action, instance.now) else ()
        return
    # Held for the whole run: otherwise two runs would both execute an action that is due.
    with action_log.hold_actions(path, instance):
        # Read under the lock: another run may have recorded its actions in the meantime.
        actions = list_actions(instance)
        for place, action in enumerate(actions):
            began = instance.now
            if not _is_due(action, began):
                continue
            reports = []
            for report in _run_steps(instance, action, verbs, dry_run=False):
                reports.append(report)
                yield report
            problem = next((report.error.message for report in reports if report.error is not None), None)
            outcome = "; ".join(f"{report.step}: {report.outcome}" for report in reports)
            # A failed action has not run: it stays due.
            ran = action.last.ran if problem is not None else began
            last = ActionState(action.name, ran, began, outcome, problem)
            actions[place] = replace(action, last=last)
            # Written after each action, so that one that ends the process does not cause earlier ones to run again.
            action_log.write_rows(path, {one.key: one.last for one in actions if one.last.tried}, instance.seam)


def _is_due(action: PlannedAction, now: Micros) -> bool:
    due = action.find_due_time(now)
    return action.is_supported and due is not None and due <= now


def _run_steps(instance: Instance, action: PlannedAction, verbs: ActionVerbs, *, dry_run: bool) -> Iterator[StepReport]:
    for step in action.steps:
        name, options = _shorten_module(step), _expand_options(instance, step)

        def report(
            outcome: StepOutcome, did: StepResult, error: SowError | None = None, name: str = name
        ) -> StepReport:
            return StepReport(action.number, action.name, name, outcome, did, error)

        if step.module == USAGE_CONDITION:
            try:
                holds, note = _check_usage(instance, options)
            except SowError as error:
                yield report("failed", StepResult(notes=[error.message]), error)
                return
            if not holds:
                yield report("condition is false", StepResult(notes=[note]))
                return
            continue
        doer = STEP_FUNCTIONS.get(step.module)
        if doer is None:
            yield report("left to a server", StepResult())
            # Later steps may be meant only after this one; a step that does not affect others is skipped.
            if step.module not in SERVER_ONLY_STEPS:
                return
            continue
        try:
            did = doer(instance, options, verbs, dry_run)
        except SowError as error:
            yield report("failed", StepResult(notes=[error.message]), error)
            return
        yield report("would be done" if dry_run else "done", did)


def _shorten_module(step: ActionStep) -> str:
    return step.module.removeprefix(ACTION_PREFIX)


def _parse_schedule(step: ActionStep) -> Schedule:
    try:
        return parse_every(dict(step.options).get("Every", ""))
    except ValueError as error:
        raise ConfigError(
            "SOW-UPK-007", f"Every: {error}", place=str(step.place), hint="sowctl validate shows all errors"
        ) from error


def _expand_options(instance: Instance, step: ActionStep) -> dict[str, str]:
    """Return the options of a step with the predefined variables expanded; others are empty, as in a server."""
    assert instance.config is not None
    known = {
        "AMPS_INSTANCE_NAME": instance.config.name,
        "AMPS_UNIX_TIMESTAMP": str(instance.now // 1_000_000),
        "AMPS_DATETIME": format_time(instance.now),
    } | {f"AMPS_BYTE_{number:02X}": chr(number) for number in range(256)}
    return {
        name: re.sub(r"\{\{(.*?)\}\}", lambda match: known.get(match[1].strip(), ""), text)
        for name, text in step.options
    }


# steps ---------------------------------------------------------------------------------------------------------------


def _parse_age(options: Mapping[str, str]) -> Micros:
    try:
        return parse_interval(options.get("Age", "")) // 1000
    except ValueError as error:
        raise ConfigError("SOW-UPK-007", f"Age: {error}", hint="sowctl validate shows all errors") from error


def _archive_journal(instance: Instance, options: Mapping[str, str], verbs: ActionVerbs, dry_run: bool) -> StepResult:
    from sowctl.engine.maintenance.retention.archive import archive_files

    did = StepResult()
    try:
        for moved in archive_files(instance, older_than=_parse_age(options), dry_run=dry_run):
            did.files += 1
            did.bytes += moved.size
    except MissingError as error:
        did.notes.append(_explain_no_journal(error))
    return did


def _compress_journal(instance: Instance, options: Mapping[str, str], verbs: ActionVerbs, dry_run: bool) -> StepResult:
    from sowctl.engine.maintenance.retention.compression import compress_files

    did = StepResult()
    try:
        for packed in compress_files(instance, older_than=_parse_age(options), dry_run=dry_run):
            did.files += 1
            # The compressed size is known only afterwards.
            did.bytes += 0 if packed.compressed_size is None else packed.size - packed.compressed_size
    except MissingError as error:
        did.notes.append(_explain_no_journal(error))
    return did


def _remove_journal(instance: Instance, options: Mapping[str, str], verbs: ActionVerbs, dry_run: bool) -> StepResult:
    from sowctl.engine.maintenance.retention.prune import KeepRule, prune_files

    try:
        report = prune_files(instance, KeepRule(keep_for=_parse_age(options)), dry_run=dry_run)
    except MissingError as error:
        return StepResult(notes=[_explain_no_journal(error)])
    notes = [
        f"{held.holder} needs the files from {held.number:010d} on: {held.why}"
        + (f"; to release them: {held.release}" if held.release is not None else "")
        for held in report.held
    ]
    notes += [
        f"past states of topic {lost.topic!r} are available from {lost.first_instant or 'an unknown instant'} on"
        for lost in report.past
    ]
    return StepResult(report.removed, report.bytes, notes=notes)


def _explain_no_journal(error: MissingError) -> str:
    """Return the message of a journal without entries: nothing to maintain. Raises any other ``error``."""
    if error.code != "SOW-JRN-001":
        raise error
    return error.message


def _compact_stores(instance: Instance, options: Mapping[str, str], verbs: ActionVerbs, dry_run: bool) -> StepResult:
    from sowctl.engine.maintenance.compaction import compact_store
    from sowctl.engine.topics.targets import resolve_targets

    chosen = list(instance.topics)
    if name := options.get("Topic"):
        found = resolve_targets(instance, name, options.get("MessageType") or None, literal=True)
        chosen = [target.topic.whole_topic for target in found if target.topic is not None]
    did = StepResult()
    for topic in chosen:
        if topic.file is not None and topic.file.exists():
            report = compact_store(instance, topic.file, dry_run=dry_run)
            did.files += 1
            did.bytes += report.bytes_before - report.bytes_after
    return did


def _delete_records(instance: Instance, options: Mapping[str, str], verbs: ActionVerbs, dry_run: bool) -> StepResult:
    topic, kind = options.get("Topic", ""), options.get("MessageType", "")
    return StepResult(records=verbs.delete(instance, topic, kind, options.get("Filter", ""), dry_run=dry_run))


USAGE_CONDITION = "amps-action-if-file-system-usage"
StepFunction = Callable[["Instance", Mapping[str, str], ActionVerbs, bool], StepResult]
STEP_FUNCTIONS: dict[str, StepFunction] = {
    "amps-action-do-archive-journal": _archive_journal,
    "amps-action-do-compress-journal": _compress_journal,
    "amps-action-do-remove-journal": _remove_journal,
    "amps-action-do-compact-sow": _compact_stores,
    "amps-action-do-delete-sow": _delete_records,
}
"""The functions of the supported steps, by module."""
SERVER_ONLY_STEPS = frozenset(
    ACTION_PREFIX + name
    for name in (
        "do-minidump", "do-truncate-statistics", "do-vacuum-statistics", "do-rotate-logs", "do-echo-message",
        "do-nothing", "do-remove-files", "do-compress-files",
    )
)  # fmt: skip
"""Steps of a server on which no later step depends: they are reported, and the action continues."""


def _check_usage(instance: Instance, options: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether the used share of a file system exceeds a percentage, and a description."""
    import os

    assert instance.config is not None
    path = instance.config.root / options.get("Path", "")
    limit = re.fullmatch(r"\s*(\d{1,3}(?:\.\d+)?)\s*%\s*", options.get("GreaterThan", ""), re.ASCII)
    if limit is None:
        raise ConfigError("SOW-UPK-007", f"GreaterThan: {options.get('GreaterThan', '')!r} is not a percentage")
    try:
        found = os.statvfs(path)
    except OSError as error:
        raise MissingError(
            "SOW-UPK-008", f"cannot get the usage of the file system of {path}: {error.strerror}"
        ) from error
    used = found.f_blocks - found.f_bfree
    percent = 100 * used / max(1, used + found.f_bavail)
    return percent > float(limit[1]), f"{percent:.1f}% of {path} is used, not more than {limit[1]}%"

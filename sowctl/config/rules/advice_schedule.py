"""Advice on when actions run, and on those that manage replication."""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config.document import ElementNode
from sowctl.config.rules.measures import HOUR, format_interval_text, read_interval
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import SubjectStep
from sowctl.config.rules.survey import Survey

MANUAL_MODULES = frozenset({"amps-action-on-admin", "amps-action-on-signal"})
MIN_COMPACT_NANOSECONDS = 6 * HOUR
MAX_AGE_SHARE = 0.6
"""About a half, with a margin."""


def _find_schedule(step: SubjectStep) -> ElementNode | None:
    return step.find_option("Every") if step.module == "amps-action-on-schedule" else None


def counts_from_start(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a schedule of an hour or more that is an interval.

    Why: an interval counts from the start of the instance, not from the hour or from midnight, and again after each
    restart.
    Example: ``<Every>24h</Every>`` in an instance that was started at 11:40.
    Instead: write ``02:00`` for every day or ``Sunday at 02:00`` for every week; keep the interval if the hour of the
    day does not matter.
    """
    for step in survey.steps:
        every = _find_schedule(step)
        number = read_interval(every)
        if every is not None and number is not None and number >= HOUR:
            message = f"Every {every.text} counts from start-up, not wall clock"
            yield Problem(every, message, "use HH:MM, such as 02:00, if the time of day matters")


def compacts_often(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: compact-sow more often than every six hours.

    Why: updates pause while a topic is compacted.
    Example: ``<Every>10m</Every>`` with ``amps-action-do-compact-sow``.
    Instead: run it at a quiet time, such as ``Sunday at 03:00``.
    """
    # Each event of an action starts all of its steps, so one frequent event is enough.
    often: dict[int, ElementNode] = {}
    for step in survey.steps:
        every = _find_schedule(step)
        number = read_interval(every)
        if every is not None and number is not None and number < MIN_COMPACT_NANOSECONDS:
            often[id(step.action)] = every
    for step in survey.find_steps("do-compact-sow"):
        every = often.get(id(step.action))
        if every is not None:
            message = f"compact-sow every {every.text} pauses updates each time"
            yield Problem(every, message, "run it at a quiet time, such as Sunday at 03:00")


def proxied_automatically(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: enable-proxied-transfer in an action that runs by itself.

    Why: it is meant for disaster recovery; while the owner of a queue is alive, messages may be delivered twice.
    Example: ``amps-action-on-disconnect-replication`` with ``amps-action-do-enable-proxied-transfer``.
    Instead: let ``amps-action-on-admin`` run it, so that a person decides.
    """
    automatic: dict[int, str] = {}
    for step in survey.steps:
        if step.node.tag == "On" and step.module not in MANUAL_MODULES:
            automatic.setdefault(id(step.action), step.module)
    for step in survey.find_steps("do-enable-proxied-transfer"):
        event = automatic.get(id(step.action))
        if event is not None:
            message = f"enable-proxied-transfer on {event}: messages may be delivered twice"
            where = step.node.find("Module") or step.node
            yield Problem(where, message, "run it from amps-action-on-admin, after a manual decision")


def flapping(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the Age of upgrade-replication is more than about half the Age of downgrade-replication.

    Why: a destination that is just fast enough is alternately downgraded and upgraded.
    Example: upgrade with ``<Age>5s</Age>`` beside downgrade with ``<Age>6s</Age>``.
    Instead: give upgrade half the Age of downgrade, or less.
    """
    downgrades = survey.find_steps("do-downgrade-replication")
    down = [number for step in downgrades if (number := read_interval(step.find_option("Age"))) is not None]
    if not down:
        return
    for step in survey.find_steps("do-upgrade-replication"):
        age = step.find_option("Age")
        upgrade = read_interval(age)
        if age is not None and upgrade is not None and upgrade > MAX_AGE_SHARE * min(down):
            lower = format_interval_text(min(down))
            message = f"upgrade-replication Age {age.text} should be about half of downgrade Age ({lower}) or less"
            yield Problem(
                age, message, f"write {format_interval_text(min(down) // 2)}; otherwise it may switch repeatedly"
            )

"""Runs of a bulk write: an instance for them, the files that a task stages, and the commit of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sowctl.engine.bulk.commit import commit_run
from sowctl.engine.bulk.staging import StagedAttempt, StagePlan, hold_staging_area
from sowctl.engine.bulk.task import StageTask
from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import CommitReport
from tests.support.instances import Lab, config_xml, topic_xml

TOPICS = "".join(
    (
        topic_xml("log"),
        topic_xml("alone"),
        topic_xml("past", "<History><Window>1h</Window><Granularity>1s</Granularity></History>"),
        topic_xml("kept", "<History><Window>1h</Window><Granularity>0s</Granularity></History>"),
        topic_xml("brief", "<Expiration>30s</Expiration>"),
        topic_xml("own", key=None),
        topic_xml(
            "rich",
            "<Preprocessing><Field>/n + 1 AS /m</Field></Preprocessing>",
            "<Enrichment><Field>/n OF PREVIOUS AS /before</Field></Enrichment>",
        ),
    )
)

XML = config_xml(TOPICS, ("log", "past", "brief", "rich"))

SKIP = PublishOptions(on_error="skip")


def make(directory: Path) -> Lab:
    return Lab(directory, XML)


def stage(plan: StagePlan, name: str, file: int, payloads: Sequence[str], first: int = 0, **more: Any) -> StagedAttempt:
    with StageTask(plan, name) as task:
        task.add_messages([text.encode() for text in payloads], file, range(first, first + len(payloads)), **more)
        return task.finish()


def run(
    lab: Lab, topic: str, *tasks: Sequence[str], options: PublishOptions = SKIP, operation: Any = "publish", **more: Any
) -> CommitReport:
    """Have every task stage its own file; the results are committed in another order than that of the files."""
    instance = lab.open()
    with hold_staging_area(instance, instance.topic(topic).config) as area:
        plan = area.build_plan(options, operation=operation)
        done = [stage(plan, f"t{number}", number, payloads) for number, payloads in enumerate(tasks)]
        return commit_run(area, plan, done[::-1], **more)


def leftovers(lab: Lab) -> list[Path]:
    return list(lab.directory.rglob("*.staging*"))

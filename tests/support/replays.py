"""Replays of an instance's topics, and a topic with a past to replay."""

from __future__ import annotations

from sowctl.engine.options import ReplayOptions
from sowctl.engine.reports import ReplayReport
from sowctl.engine.verbs.replay import replay_topics
from tests.support.instances import Lab, message


def run(lab: Lab, *names: str, **options: object) -> list[ReplayReport]:
    instance = lab.open()
    chosen = [instance.topic(name).config for name in names] if names else instance.topics
    return replay_topics(instance, chosen, ReplayOptions(**options))  # type: ignore[arg-type]


def timeline(lab: Lab, topic: str) -> None:
    """Ten messages, one second apart, then a deletion: txids 1 to 11."""
    for number in range(10):
        lab.publish(topic, message(id=number % 4, v=number))
        lab.clock.tick(1)
    lab.open().topic(topic).delete(filter="/id = 1")

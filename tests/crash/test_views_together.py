"""Several processes read a view while one publishes: each sees both of its topics as of one instant, and none is lost.

Every number is published to A first and then to B, so at any instant A has as many records as B or one more. The view
joins them, and returns both numbers.
"""

from __future__ import annotations

import gc
import json
import os
from contextlib import closing
from pathlib import Path

from sowctl.engine.topics.targets import Target, find_topic
from sowctl.engine.verbs.view import check_view, select_views
from sowctl.engine.views.openers import open_target
from sowctl.errors import LockedError
from sowctl.store.codec import extract_payloads
from tests.support.instances import Lab, config_xml, message, topic_xml

VIEW = """
<View><Name>both</Name><MessageType>json</MessageType><UnderlyingTopic><Join>[A]./id = [B]./id</Join></UnderlyingTopic>
<Projection><Field>COUNT([A]./id) AS /a</Field><Field>COUNT([B]./id) AS /b</Field></Projection>
<Grouping><Field>[A]./all</Field></Grouping></View>
"""
READERS, ROUNDS = 3, 25


def told(lab: Lab) -> tuple[int, int]:
    instance = lab.open()
    topic = find_topic(instance, "both", derived=True)
    with closing(open_target(instance, Target(topic=topic), None)) as source:
        rows = [json.loads(one) for _, values in source.read_batches(10) for one in extract_payloads(values)]
    return (rows[0]["a"], rows[0]["b"]) if rows else (0, 0)


def reader(lab: Lab) -> int:
    """Read repeatedly; return 0 if all results are right."""
    seen = (0, 0)
    while seen[1] < ROUNDS:
        try:
            now = told(lab)
        except LockedError:
            continue
        if not (now[0] - now[1] in (0, 1) and now[0] >= seen[0] and now[1] >= seen[1]):
            return 1
        seen = now
    return 0


def test_readers_beside_a_publisher_see_one_instant(memory: Path) -> None:
    lab = Lab(memory / "lab", config_xml(topic_xml("A") + topic_xml("B") + VIEW, ("A", "B")))
    lab.publish("A", message(id=0))
    lab.publish("B", message(id=0))
    children = []
    for _ in range(READERS):
        child = os.fork()
        if child == 0:
            gc.freeze()
            status = 2
            try:
                status = reader(lab)
            finally:
                os._exit(status)
        children.append(child)
    for number in range(1, ROUNDS + 1):
        lab.publish("A", message(id=number))
        lab.publish("B", message(id=number))
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * READERS
    assert told(lab) == (ROUNDS + 1, ROUNDS + 1)
    instance = lab.open()
    assert all(check_view(instance, view).is_sound for view in select_views(instance, None))

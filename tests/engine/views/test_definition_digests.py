"""Digests of definitions are stored in caches and in states of conflated topics: a change of them rebuilds everything.

The digests were written by releases: they change with the versions of the formats alone.
"""

from __future__ import annotations

from pathlib import Path

from sowctl.config.derived_entries import ConflatedTopic, View
from sowctl.engine.views import cache
from sowctl.engine.views.conflation import state_tables
from sowctl.engine.views.definition import build_query
from tests.support.instances import Lab, config_xml, topic_xml

XML = config_xml(
    topic_xml("orders")
    + topic_xml("clients")
    + """
<View><Name>joined</Name><MessageType>json</MessageType>
<UnderlyingTopic><Join>[orders]./client = [clients]./id</Join></UnderlyingTopic>
<Projection><Field>[clients]./name AS /name</Field><Field>SUM([orders]./qty) AS /total</Field></Projection>
<Grouping><Field>[clients]./name</Field></Grouping></View>
<View><Name>one</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<Projection><Field>/client AS /client</Field><Field>SUM(/qty) AS /total</Field></Projection>
<Grouping><Field>/client</Field></Grouping></View>
<ConflatedTopic><Name>slow</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<Interval>5s</Interval></ConflatedTopic>
<ConflatedTopic><Name>slowv</Name><MessageType>json</MessageType><UnderlyingTopic>one</UnderlyingTopic>
<Interval>5s</Interval></ConflatedTopic>
""",
    ("orders",),
)


def test_digests_of_definitions_are_those_of_earlier_releases(tmp_path: Path) -> None:
    with Lab(tmp_path / "lab", XML).open() as instance:
        assert instance.config is not None
        views = [entry for entry in instance.config.sow if isinstance(entry, View)]
        assert {view.name: cache.definition_digest(instance, build_query(instance, view)) for view in views} == {
            "joined": "b08ea1bf09cff51e0ba3430858030668",
            "one": "dcfdd87eb9f0fedd8713f046fbe3af97",
        }
        conflated = [entry for entry in instance.config.sow if isinstance(entry, ConflatedTopic)]
        assert {entry.name: state_tables.definition_digest(instance, entry) for entry in conflated} == {
            "slow": "ae345bf10887ec8c5428ab7ed3407e20",
            "slowv": "9a49e5106831da62013bc7d539270d0f",
        }

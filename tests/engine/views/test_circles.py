"""Views and conflated topics that read themselves, or too many levels of others: reads fail (``behaviour`` 5.1)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from sowctl.config.model import OtherEntry
from sowctl.engine.topics.derived_topics import MAX_DERIVED_DEPTH
from sowctl.engine.views.instant import run_at_instant
from sowctl.engine.views.openers import open_derived_entry
from sowctl.errors import ConfigError
from tests.support.instances import Lab, config_xml, message, topic_xml


def view_xml(name: str, source: str) -> str:
    return (
        f"<View><Name>{name}</Name><MessageType>json</MessageType><UnderlyingTopic>{source}</UnderlyingTopic>"
        "<Projection><Field>/g</Field><Field>SUM(/v) AS /v</Field></Projection>"
        "<Grouping><Field>/g</Field></Grouping></View>"
    )


def conflated_xml(name: str, source: str) -> str:
    return (
        f"<ConflatedTopic><Name>{name}</Name><MessageType>json</MessageType>"
        f"<UnderlyingTopic>{source}</UnderlyingTopic></ConflatedTopic>"
    )


def _refreshed(lab: Lab) -> Callable[[str], None]:
    """Return a reader that opens an entry as ``view refresh`` and ``conflate`` do, without resolving its name."""

    def read(name: str) -> None:
        instance = lab.open()
        assert instance.config is not None
        (entry,) = instance.config.find_entries(name)
        assert isinstance(entry, OtherEntry)
        run_at_instant(
            instance, entry, None, open_derived_entry, lambda moment: open_derived_entry(moment, entry).close()
        )

    return read


@pytest.mark.parametrize(
    ("xml", "path"),
    [
        (view_xml("a", "a"), "a -> a"),
        (view_xml("a", "b") + view_xml("b", "a"), "a -> b -> a"),
        (view_xml("a", "<Join>[t]./id=[b]./g</Join>") + view_xml("b", "a"), "a -> b -> a"),
        (conflated_xml("a", "b") + conflated_xml("b", "a"), "a -> b -> a"),
        (view_xml("a", "b") + conflated_xml("b", "c") + view_xml("c", "b"), "b -> c -> b"),
    ],
)
def test_readers_refuse_what_reads_itself(xml: str, path: str, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t") + xml, ("t",)))
    lab.publish("t", message(id=1, g="x", v=1))
    for read in (lab.query, lab.digest, _refreshed(lab)):
        with pytest.raises(ConfigError) as caught:
            read("a")
        assert caught.value.code == "SOW-VIW-004"
        assert path in caught.value.message
    assert lab.query("t") == [message(id=1, g="x", v=1)]


def test_views_stand_on_each_other_up_to_a_bound(tmp_path: Path) -> None:
    names = ["t", *(f"v{number}" for number in range(MAX_DERIVED_DEPTH + 1))]
    xml = "".join(view_xml(name, source) for source, name in pairwise(names))
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t") + xml, ("t",)))
    lab.publish("t", message(id=1, g="x", v=1))
    assert lab.query(names[-2]) == [message(g="x", v=1)]
    with pytest.raises(ConfigError) as caught:
        lab.query(names[-1])
    assert caught.value.code == "SOW-VIW-004"

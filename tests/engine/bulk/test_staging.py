"""Staging directories: their owners, and the topics that can be staged."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.engine.bulk.staging import StagingArea, hold_staging_area, require_loadable_topic
from sowctl.engine.topics.targets import find_topic
from sowctl.errors import UsageError
from tests.support.instances import Lab, config_xml, topic_xml
from tests.support.staged import leftovers, make


def test_a_living_run_is_not_swept(tmp_path: Path) -> None:
    lab = make(tmp_path)
    instance = lab.open()
    topic = instance.topic("log").config
    with hold_staging_area(instance, topic) as first:
        with hold_staging_area(instance, topic) as second:
            assert first.directory.exists()
            assert second.directory != first.directory
        assert first.directory.exists()
        assert isinstance(first, StagingArea)
    assert not leftovers(lab)


@pytest.mark.parametrize("name", ["all", "/orders/a"])
def test_topics_of_patterns_are_refused(tmp_path: Path, name: str) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("all", "<Pattern>^/orders/</Pattern>"), ()))
    with pytest.raises(UsageError) as caught:
        require_loadable_topic(find_topic(lab.open(), name))
    assert caught.value.code == "SOW-ENG-047"
    assert "'all'" in caught.value.message

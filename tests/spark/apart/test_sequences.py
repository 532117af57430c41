"""Which checkpoint the batches of a stream belong to, by what the topic has of their publisher."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.errors import RefusedError
from sowctl.spark.writing.sequences import find_batch_sequence
from tests.support.instances import Lab, config_xml, message, topic_xml

XML = config_xml(topic_xml("a"), ("a",))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, XML)


def find(lab: Lab, batch: int, query: str = "one") -> int:
    instance = lab.open()
    return find_batch_sequence(instance, instance.topic("a").config, "copier", query, batch)


def publish(lab: Lab, sequence: int) -> int:
    """The number of messages that were published; none where the sequence is a repetition."""
    return int(lab.publish("a", message(id=1, v=sequence), client="copier", sequence=sequence).published)


def test_a_batch_may_be_repeated_until_the_next_one_is_published(lab: Lab) -> None:
    first = find(lab, 0)
    assert publish(lab, first) == 1
    assert find(lab, 0) == first and publish(lab, first) == 0
    later = find(lab, 7)
    assert later > first and publish(lab, later) == 1
    for batch in (0, 6):
        with pytest.raises(RefusedError) as caught:
            find(lab, batch)
        assert caught.value.code == "SOW-SPK-171"


@pytest.mark.parametrize("batch", [0, 1, 9])
def test_batches_of_another_checkpoint_are_refused(lab: Lab, batch: int) -> None:
    publish(lab, find(lab, 1))
    with pytest.raises(RefusedError):
        find(lab, batch, "another")


def test_a_stream_goes_on_behind_sequences_without_a_mark(lab: Lab) -> None:
    publish(lab, 3)
    for batch in (0, 2):
        with pytest.raises(RefusedError):
            find(lab, batch)
    assert publish(lab, find(lab, 3)) == 1

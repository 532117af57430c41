"""What an instance keeps open, and until when."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.instances import Lab, message
from tests.support.stores import opened

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not list open files")


def test_an_instance_keeps_stores_open_within_its_with_statement(lab: Lab) -> None:
    lab.publish("t", *[message(id=n, v=n) for n in range(5)])
    instance = lab.open()
    topic = instance.topic("t")
    path = topic.config.file
    assert path is not None
    assert len(list(topic.query("/v > 2").records())) == 2
    assert opened(path) == 0
    with instance:
        assert len(list(topic.query("/v > 2").records())) == 2
        assert opened(path) > 0
        assert topic.publish([message(id=9, v=9).encode()]).published == 1
        assert len(list(topic.query("/v > 2").records())) == 3
        assert topic.delete(filter="/v = 9").deleted == 1
        assert len(list(topic.query("/v > 2").records())) == 2
        topic.replay(rebuild=True)
        assert len(list(topic.query("/v > 2").records())) == 2
        instance.close()
        assert opened(path) == 0
        assert topic.query("/v > 2").count() == 2
    assert opened(path) == 0
    assert topic.query("/v > 2").count() == 2
    assert opened(path) == 0, "the next questions are as before"

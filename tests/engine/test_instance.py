"""Stores that an instance keeps open, and when it closes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sowctl
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


@pytest.mark.parametrize("messages", [b'{"id":1}', '{"id":1}', {"id": 1}, [[1]], [b'{"id":1}', None]])
def test_what_is_no_list_of_messages_is_refused_before_anything_is_written(messages: Any, lab: Lab) -> None:
    lab.publish("t", message(id=9))
    topic = lab.open().topic("t")
    with pytest.raises(TypeError, match=r"^(messages|a message) must be .*, not (bytes|str|dict|list|NoneType)\b"):
        topic.publish(messages)
    assert topic.query().count() == 1


def test_programs_name_a_configuration_by_a_path_and_catch_one_class(lab: Lab) -> None:
    with sowctl.open(Path(lab.config)) as instance, pytest.raises(sowctl.SowError) as caught:
        instance.topic("nope")
    assert caught.value.code.startswith("SOW-")

"""A program that runs out of memory gets an error with a code, from methods and from the objects that they return."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import signature
from unittest.mock import patch

import pytest

from sowctl.engine.api import InstanceHandle, TopicHandle
from sowctl.errors import LimitError
from sowctl.expressions.rows.program import CompiledExpression
from tests.engine.conftest import MakeLab
from tests.support.instances import message


async def follow(topic: TopicHandle) -> list[object]:
    async with topic.subscribe("/n > 1", until_now=True) as events:
        return [event async for event in events]


WAYS: dict[str, Callable[[InstanceHandle, TopicHandle], object]] = {
    "batches": lambda _, topic: list(topic.query("/n > 1")),
    "records": lambda _, topic: list(topic.query("/n > 1").records()),
    "dicts": lambda _, topic: topic.query("/n > 1").to_dicts(),
    "count": lambda _, topic: topic.query("/n > 1").count(),
    "arrow": lambda _, topic: topic.query("/n > 1").to_arrow(),
    "delete": lambda _, topic: topic.delete(filter="/n > 1"),
    "diff": lambda _, topic: list(topic.diff(filter="/n > 1", at="-1h")),
    "subscribe": lambda instance, topic: list(instance.subscribe("t", "/n > 1", until_now=True)),
    "async": lambda _, topic: asyncio.run(follow(topic)),
}


@pytest.mark.parametrize("way", WAYS)
def test_not_enough_memory_has_a_code(way: str, make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.publish("t", *(message(id=number, n=number) for number in range(5)))
    instance = lab.open()
    topic = instance.topic("t")
    with patch.object(CompiledExpression, "_run_loop", side_effect=MemoryError), pytest.raises(LimitError) as found:
        WAYS[way](instance, topic)
    assert (found.value.code, found.value.exit_status) == ("SOW-CLI-063", 7)
    # The instance stays usable.
    assert len(topic.query("/n > 1").to_dicts()) == 3


def test_methods_keep_their_signatures() -> None:
    assert "top_n" in signature(TopicHandle.query).parameters
    assert TopicHandle.publish.__doc__

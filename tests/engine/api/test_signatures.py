"""Signatures of methods list the options of the engine, and ``help()`` describes each of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest
from msgspec import Struct

from sowctl.engine.api import InstanceHandle, TopicHandle
from sowctl.engine.options import DiffOptions, PublishOptions, QueryOptions, ReplayOptions, SubscribeOptions

SYNONYMS = {"limit": "top_n", "offset": "skip_n"}
LAWS: list[tuple[Callable[..., object], type[Struct], set[str]]] = [
    (TopicHandle.publish, PublishOptions, {"messages", "options"}),
    (InstanceHandle.publish, PublishOptions, {"topic", "messages", "options"}),
    (TopicHandle.query, QueryOptions, set()),
    (TopicHandle.explain, QueryOptions, set()),
    (TopicHandle.subscribe, SubscribeOptions, set()),
    (InstanceHandle.subscribe, SubscribeOptions, {"target"}),
    (TopicHandle.diff, DiffOptions, {"other", "at", "other_at"}),
    (TopicHandle.replay, ReplayOptions, set()),
]


@pytest.mark.parametrize(("method", "options", "own"), LAWS, ids=[law[0].__qualname__ for law in LAWS])
def test_a_signature_has_every_option_with_its_default(
    method: Callable[..., object], options: type[Struct], own: set[str]
) -> None:
    """``own`` names the parameters that are not options."""
    parameters = {name: one for name, one in inspect.signature(method).parameters.items() if name not in {"self", *own}}
    defaults = dict(zip(options.__struct_fields__, options.__struct_defaults__, strict=True))
    synonyms = {name: defaults[meant] for name, meant in SYNONYMS.items() if meant in defaults}
    assert {name: one.default for name, one in parameters.items()} == defaults | synonyms
    for name, one in parameters.items():
        assert one.kind is (one.POSITIONAL_OR_KEYWORD if name == "filter" else one.KEYWORD_ONLY)
        assert one.annotation is not one.empty


@pytest.mark.parametrize("name", ["publish", "publish_file", "query", "subscribe", "diff", "replay"])
def test_help_explains_every_keyword(name: str) -> None:
    method = getattr(TopicHandle, name)
    explained: set[str] = set()
    for line in re.findall(r"^\* (.*?)(?: \(|:)", inspect.getdoc(method) or "", re.MULTILINE):
        explained.update(re.split(r", | or ", line))
    wanted = set(inspect.signature(method).parameters) - {
        "self",
        "messages",
        "file",
        "options",
        "other",
        "at",
        "other_at",
    }
    assert wanted - explained == set()

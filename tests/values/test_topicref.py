"""References of topics: they pass for the tuple of both names wherever one was stored, sent or digested."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable

import msgpack
import msgspec
import pytest

from sowctl.values.topicref import TopicRef

REF = TopicRef("orders", "json")
PAIR = ("orders", "json")


class Holder(msgspec.Struct, frozen=True):
    """A value with references in a field, as digests are computed of."""

    refs: tuple[TopicRef, ...]


def test_reference_equals_the_tuple_and_has_its_hash_and_order() -> None:
    assert REF == PAIR
    assert hash(REF) == hash(PAIR)
    assert {REF: 1}[PAIR] == {PAIR: 1}[REF] == 1
    assert sorted([TopicRef("b", "fix"), ("a", "json"), TopicRef("a", "fix")]) == [
        ("a", "fix"),
        ("a", "json"),
        ("b", "fix"),
    ]


def test_repr_is_that_of_the_tuple() -> None:
    # Definitions of views and conflated topics are digested from their repr: another text would rebuild every cache.
    assert repr(REF) == str(REF) == repr(PAIR)
    assert repr(Holder((REF, TopicRef("it's", "fix")))) == "Holder(refs=(('orders', 'json'), (\"it's\", 'fix')))"


@pytest.mark.parametrize("encode", [msgspec.msgpack.encode, msgspec.json.encode, msgpack.packb, json.dumps])
def test_encodings_are_those_of_the_tuple(encode: Callable[[object], bytes | str]) -> None:
    assert encode(REF) == encode(PAIR)


def test_decoding_and_pickling_keep_the_type() -> None:
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(Holder((REF,))), type=Holder)
    assert type(decoded.refs[0]) is TopicRef
    assert type(pickle.loads(pickle.dumps(REF))) is TopicRef

"""The first n items, or all, under any memory limit, and with items above the current limit left out."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sowctl.engine.options import QueryOptions
from sowctl.engine.search.sorter import Sorter, SortItem
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.query import start_query
from tests.engine.conftest import MakeLab
from tests.support.instances import Lab, config_xml, message, topic_xml

RANKS = st.lists(st.integers(0, 40), max_size=40)


@given(st.lists(RANKS, max_size=60), st.none() | st.integers(0, 8), st.sampled_from([500, 5000, 1 << 20]))
def test_what_lies_behind_the_limit_is_not_missed(batches: list[list[int]], first: int | None, memory: int) -> None:
    everything: list[SortItem] = []
    with closing(Sorter(memory, first)) as sorter:
        for batch in batches:
            start = len(everything)
            items = [((rank,), (start + n).to_bytes(4, "big"), b"value") for n, rank in enumerate(batch)]
            everything += items
            limit = sorter.limit
            sorter.add([item for item in items if limit is None or item[0] <= limit])
        assert list(sorter.iterate_sorted()) == sorted(everything)[:first]


def test_a_limit_is_known_when_enough_were_seen() -> None:
    with closing(Sorter(1 << 20, 10)) as sorter:
        assert sorter.limit is None
        sorter.add([((n,), n.to_bytes(4, "big"), b"") for n in range(2000, 0, -1)])
        assert sorter.limit == (10,)
    with closing(Sorter(1 << 20, None)) as sorter:
        sorter.add([((n,), n.to_bytes(4, "big"), b"") for n in range(2000)])
        assert sorter.limit is None, "all are wanted"


@pytest.mark.parametrize("order", ["/v", "/v DESC", "/s, /v DESC", "/v DESC, /s DESC"])
def test_the_first_of_many_are_those_of_all(lab: Lab, order: str) -> None:
    values = ["x", 5, 5.5, None, "7", True, -3, "", "xy", [8, 1]]
    lab.publish("t", *[message(id=n, v=values[n % 10] if n % 3 else n % 97, s=str(n % 13)) for n in range(4000)])
    topic = lab.open().topic("t")

    def found(**options: int) -> list[bytes]:
        return [record.payload for record in topic.query(order_by=order, index_from=None, **options).records()]

    everything = found()
    assert found(top_n=25, skip_n=10) == everything[10:35]
    assert found(top_n=2500) == everything[:2500]


def test_ties_at_the_limit_are_broken_by_keys_in_all_topics(make_lab: MakeLab) -> None:
    names = ("Topic_A", "Topic_B")
    lab = make_lab(config_xml("".join(map(topic_xml, names)), names))
    for name in names:
        lab.publish(name, *[message(id=f"{name}{n}", v=n % 3) for n in range(2500)])
    instance = lab.open()
    options = QueryOptions(order_by="/v", index_from=None)
    targets = resolve_targets(instance, "^Topic_")

    def found(options: QueryOptions) -> list[tuple[bytes, bytes]]:
        return [(record.key, record.payload) for record in start_query(instance, targets, options).iterate_records()]

    assert found(replace(options, top_n=20)) == found(options)[:20]

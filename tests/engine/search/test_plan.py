"""Plans without data: computed from the query and a few numbers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sowctl.config.instance import load_instance
from sowctl.config.model import TopicConfig
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.matcher import Matcher
from sowctl.engine.search.plan import (
    IndexCounts,
    Plan,
    PlanStep,
    TopicQuery,
    TopicStatistics,
    build_scan_plan,
    draft_plan,
    is_faster_by_columns,
    refine_plan,
)
from sowctl.engine.search.terms import parse_order_keys
from sowctl.engine.topics.positions import build_definition
from sowctl.expressions.environment import Environment
from sowctl.messages.json.type import JsonType
from sowctl.values.fields import Slot
from sowctl.values.paths import parse_path
from tests.support.instances import config_xml, topic_xml

LARGE = 200_000


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> TopicConfig:
    index = "<HashIndex><Key>/a</Key><Key>/b</Key></HashIndex>"
    path = tmp_path_factory.mktemp("plan") / "sowctl.xml"
    path.write_text(config_xml(topic_xml("t", index), ()))
    return load_instance(path, environment={}).topics[0]


@pytest.fixture
def statistics(topic: TopicConfig) -> TopicStatistics:
    """Return statistics of a store that is large enough for every plan."""
    return TopicStatistics("t", "json", build_definition("test", topic), topic, LARGE, LARGE, processors=2)


def asked(filter: str | None = None, order: str | None = None, **options: object) -> TopicQuery:
    matcher = Matcher(filter, JsonType(), "t", Environment(now=lambda: 0))
    return TopicQuery(matcher, order=parse_order_keys(order), **options)  # type: ignore[arg-type]


def slots(*paths: str) -> set[Slot]:
    return {Slot(parse_path(path)) for path in paths}


def test_without_a_filter_all_is_read_in_one_process(statistics: TopicStatistics) -> None:
    assert draft_plan(asked(), statistics) == Plan("t", "json", "scan", LARGE, LARGE)
    assert draft_plan(asked(given=3), statistics) == Plan("t", "json", "key lookup", LARGE, 3)


@pytest.mark.parametrize(
    ("changes", "jobs", "processes"),
    [
        ({}, None, 2),
        ({}, 5, 5),
        ({}, 0, 1),
        ({}, 1000, 64),
        ({"processors": 1}, None, 1),
        ({"processors": 0}, 5, 1),
        ({"processors": 8}, None, 2),
        ({"reopens": False}, 5, 1),
        ({"whole": False}, 5, 1),
        ({"stored": 149_999}, 5, 1),
        ({"stored": 150_000}, None, 2),
    ],
)
def test_processes(statistics: TopicStatistics, changes: dict[str, object], jobs: int | None, processes: int) -> None:
    plan = draft_plan(asked("/v > /w", jobs=jobs), replace(statistics, **changes))  # type: ignore[arg-type]
    assert (plan.access, plan.processes, plan.residual) == ("scan", processes, ("/v > /w",))


def test_keys_go_before_indexes(statistics: TopicStatistics, topic: TopicConfig) -> None:
    plan = draft_plan(asked("SOW_KEY() IN ('7', '5') AND /v = 1"), statistics)
    expected = tuple(number.to_bytes(8, "big") for number in (5, 7))
    assert (plan.access, plan.keys, plan.estimated, plan.processes) == ("key lookup", expected, 2, 1)
    assert plan.residual == ("SOW_KEY() IN ('7', '5')", "/v = 1")
    assert draft_plan(asked("SOW_KEY() = '7' AND SOW_KEY() = '5'"), statistics).keys == ()
    pattern = replace(statistics, config=replace(topic, pattern="^t"))
    assert draft_plan(asked("SOW_KEY() = '7'"), pattern).keys is None
    assert draft_plan(asked("/id[0] = 'k'"), statistics).estimated == 1
    assert draft_plan(asked("/id[0] = 'k'"), replace(statistics, config=None)).access == "memo index"  # a bare file


@pytest.mark.parametrize(
    ("changes", "least", "access"),
    [
        ({"stored": 20_000}, QUERY_LIMITS.index_min_records, "memo index"),
        ({"stored": 19_999}, QUERY_LIMITS.index_min_records, "scan"),
        ({"stored": 3}, 0, "memo index"),
        ({}, None, "scan"),
        ({"filed": False}, 0, "scan"),
        ({"fields": False}, 0, "scan"),
        ({"whole": False}, 0, "scan"),
    ],
)
def test_where_indexes_are_opened(
    statistics: TopicStatistics, changes: dict[str, object], least: int | None, access: str
) -> None:
    question = asked("/v > 5 AND /s = 'x' AND /v > /w", index_from=least)
    plan = draft_plan(question, replace(statistics, **changes))  # type: ignore[arg-type]
    assert plan.access == access
    if access == "memo index":
        assert [one.condition.text for one in plan.asked] == ["/v > 5", "/s = 'x'"]
        assert plan.residual == ("/v > /w",)
    else:
        assert plan == build_scan_plan(question, replace(statistics, **changes))  # type: ignore[arg-type]


def test_the_rarest_condition_is_taken_first(statistics: TopicStatistics) -> None:
    question = asked("/v > 5 AND /s = 'x' AND /u < 3")
    plan = draft_plan(question, statistics)
    found = refine_plan(plan, IndexCounts(LARGE, (30_000, 200, None), slots("/v", "/s")), question, statistics)
    assert (found.access, found.ranked, found.arrays) == ("memo index", False, False)
    assert found.steps == (PlanStep("/s = 'x'", 200), PlanStep("/v > 5", 30_000))
    assert [one.condition.text for one in found.asked] == ["/s = 'x'", "/v > 5"]
    assert found.residual == ("/u < 3",)


@pytest.mark.parametrize(("hits", "access"), [(60_000, "memo index"), (60_001, "scan")])
def test_an_index_that_leaves_much_is_not_used(statistics: TopicStatistics, hits: int, access: str) -> None:
    question = asked("/v > 5")
    found = refine_plan(
        draft_plan(question, statistics), IndexCounts(LARGE, (hits,), slots("/v")), question, statistics
    )
    assert (found.access, found.processes) == (access, 1 if access == "memo index" else 2)
    if access == "scan":
        assert found == build_scan_plan(question, statistics)


def test_no_index_at_all(statistics: TopicStatistics) -> None:
    question = asked("/v > 5", order="/n", wanted=3)
    counts = IndexCounts(LARGE, (None,), slots("/n"))
    assert refine_plan(draft_plan(question, statistics), counts, question, statistics).access == "scan"


def test_the_first_of_an_order(statistics: TopicStatistics) -> None:
    question = asked("/v > 5", order="/n DESC, /id", wanted=30)
    plan = draft_plan(question, statistics)
    assert (plan.sort, plan.order) == (parse_order_keys("/n DESC")[0], "the first 30 of all that match")
    ranked = refine_plan(plan, IndexCounts(LARGE, (LARGE,), slots("/v", "/n")), question, statistics)
    assert (ranked.access, ranked.ranked, ranked.order) == ("memo index", True, "the first 30 by index")
    other = refine_plan(plan, IndexCounts(LARGE, (5,), slots("/v")), question, statistics)
    assert (other.access, other.ranked, other.order) == ("memo index", False, "the first 30 of all that match")
    without = asked(order="/n", wanted=30)
    assert refine_plan(draft_plan(without, statistics), IndexCounts(9, (), slots("/n")), without, statistics).ranked
    assert refine_plan(draft_plan(without, statistics), IndexCounts(9, (), ()), without, statistics).access == "scan"


@pytest.mark.parametrize(
    ("options", "words", "sorts"),
    [
        ({"wanted": QUERY_LIMITS.top_k_max_records}, "the first 10,000 of all that match", True),
        ({"wanted": QUERY_LIMITS.top_k_max_records + 1}, "the first 10,001 of all that match", False),
        ({}, "sorted", False),
        ({"wanted": 3, "topic_count": 2}, "the first 3 of all that match", False),
        ({"wanted": 3, "projected": True}, "the first 3 of all that match", False),
    ],
)
def test_orders_that_an_index_may_give(
    statistics: TopicStatistics, options: dict[str, object], words: str, sorts: bool
) -> None:
    plan = draft_plan(asked("/v > 5", order="/n", **options), statistics)
    assert (plan.order, plan.sort is not None) == (words, sorts)
    assert draft_plan(asked("/v > /w", order="/n", wanted=3), statistics).sort is None
    assert draft_plan(asked(by_time=True), statistics).order == "by time"


@pytest.mark.parametrize(
    ("filter", "access"),
    [
        ("/a = 'x' AND /b = 'y'", "hash index"),
        ("/b IN ('x', 'z') AND /a = 'y'", "hash index"),
        ("/id = 'x'", "hash index"),
        ("/a = 'x'", "memo index"),
        ("/a = 'x' AND /b LIKE 'y|z'", "memo index"),
        ("/a = 'x' AND /b = 'y' AND /id > 3", "memo index"),
    ],
)
def test_exact_matches_on_all_fields_of_a_hash_index(statistics: TopicStatistics, filter: str, access: str) -> None:
    question = asked(filter)
    plan = draft_plan(question, statistics)
    known = slots("/a", "/b", "/id")
    counts = IndexCounts(LARGE, [1] * len(plan.asked), known)
    assert refine_plan(plan, counts, question, statistics).access == access
    assert refine_plan(plan, counts, question, replace(statistics, config=None)).access == "memo index"


def test_fields_from_indexes_for_a_projection(statistics: TopicStatistics) -> None:
    fields = sorted(slots("/q", "/r"), key=str)
    question = asked("/v > 5", fields=fields, projected=True)
    plan = draft_plan(question, statistics)
    assert plan.fields == tuple(fields)
    assert refine_plan(plan, IndexCounts(LARGE, (LARGE,), slots("/v", "/q", "/r")), question, statistics).ranked
    assert refine_plan(plan, IndexCounts(LARGE, (LARGE,), slots("/v", "/q")), question, statistics).access == "scan"
    assert draft_plan(asked("/v > /w", fields=fields, projected=True), statistics).fields == ()


def test_numpy_is_loaded_by_size_alone(statistics: TopicStatistics) -> None:
    question = asked("/v > 5")
    for hits, arrays in ((599_999, False), (600_000, True)):
        counts = IndexCounts(10_000_000, (hits,), slots("/v"))
        assert refine_plan(draft_plan(question, statistics), counts, question, statistics).arrays is arrays
    assert (is_faster_by_columns(74_999, lasting=False), is_faster_by_columns(75_000, lasting=False)) == (False, True)


def test_a_program_that_asks_again_and_again_uses_numpy_sooner(statistics: TopicStatistics) -> None:
    question, lasting = asked("/v > 5"), replace(statistics, lasting=True)
    for hits in (QUERY_LIMITS.lasting_array_min_rows - 1, QUERY_LIMITS.lasting_array_min_rows):
        counts = IndexCounts(10_000_000, (hits,), slots("/v"))
        assert refine_plan(draft_plan(question, lasting), counts, question, lasting).arrays is (
            hits >= QUERY_LIMITS.lasting_array_min_rows
        )
        assert not refine_plan(draft_plan(question, statistics), counts, question, statistics).arrays
    rows = QUERY_LIMITS.lasting_array_min_rows // QUERY_LIMITS.group_cost_factor
    assert (is_faster_by_columns(rows, lasting=True), is_faster_by_columns(rows, lasting=False)) == (True, False)


def test_what_is_printed() -> None:
    plan = Plan("t", "json", "memo index", 9, 2, (PlanStep("/v > 5", 2),), ("/w > /v",), keys=(b"x",))
    assert list(plan.build_facts()) == [
        *("topic", "message_type", "access", "records", "estimated", "steps", "residual", "behind", "processes"),
        *("order", "examined", "matched", "returned", "milliseconds"),
    ]
    assert plan.build_facts()["steps"] == [{"condition": "/v > 5", "records": 2}]

"""Law: a query gives the same records, in the same order, with the same statistics, with and without memo indexes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sowctl.engine.options import QueryOptions
from sowctl.engine.search import index_access
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.query import start_query
from tests.support.examples import examples
from tests.support.instances import Lab, config_xml, topic_xml

_SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.sampled_from([0.5, 2.0, 9.75, -1e300, 2**53 + 1, 2**63]),
    st.sampled_from(["", "a", "ab", "abc", "5", " 5 ", "7.5", "zebra", "É", "nan"]),
)


@pytest.fixture(autouse=True, scope="module")
def for_every_share() -> Iterator[None]:
    """Indexes are used for every share of the records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QUERY_LIMITS, "index_max_share", 1.0)
        patch.setattr(QUERY_LIMITS, "index_batch_min_rows", 2)
        yield


@contextmanager
def _by_indexes() -> Iterator[list[bool]]:
    """For each question that is put to indexes within the block, whether they found its records."""
    answers: list[bool] = []
    found = index_access._build_index_access

    def noted(*arguments: Any) -> Any:
        result = found(*arguments)
        answers.append(result is not None)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_access, "_build_index_access", noted)
        yield answers


_VALUE = st.one_of(_SCALAR, st.lists(_SCALAR, max_size=3), st.fixed_dictionaries({"deep": _SCALAR}))
_NUMBERS = st.one_of(st.none(), st.integers(-5, 30), st.floats(-5, 30, allow_nan=False))
_TEXTS = st.one_of(st.none(), st.sampled_from(["", "EMEA", "APAC", "AMER", "amer", "5"]))


def _messages(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[dict[str, object]]]:
    fields = {"id": st.integers(0, 40), "n": _NUMBERS, "s": _TEXTS, "v": values}
    return st.lists(st.fixed_dictionaries(fields), min_size=1, max_size=30)


_CONDITIONS = st.sampled_from(
    [
        "/n > 5",
        "/n >= 5 AND /n < 20",
        "/n = 5",
        "5 > /n",
        "/n BETWEEN 3 AND 9.5",
        "/n <> 5",
        "/n IS NULL",
        "/n > '5'",
        "/n IN (1, 2, 3, '7')",
        "/n * 2 > 11",
        "/s = 'EMEA'",
        "/s = '5'",
        "/s > 'B'",
        "/s IN ('EMEA', 'AMER')",
        "/s LIKE 'E'",
        "/s BEGINS WITH ('A')",
        "UPPER(/s) = 'AMER'",
        "NOT /s = 'EMEA'",
        "/v = 5",
        "/v = 'a'",
        "/v > 2",
        "/v != 'zebra'",
        "/v IS NOT NULL",
        "/v[1] = 5",
        "/v/deep = 5",
        "/v LIKE 'a'",
        "/n > /v",
        "/n > 5 OR /s = 'EMEA'",
        "SOW_KEY() > '5'",
        "SOW_KEY() IN ('5', '7')",
        "/id[0] = 'x'",
        "/id = 7",
        "LENGTH(/s) = 4",
        "IF(/n > 3, /n < 9, /n IS NULL)",
    ]
)
_FILTERS = st.lists(_CONDITIONS, min_size=0, max_size=3).map(" AND ".join)
_ORDERS = st.sampled_from([None, "/n", "/n DESC, /s", "/s", "/s DESC", "/v", "/s TEXT"])
_PAGES = st.sampled_from([(None, None), (3, None), (4, 2), (0, None), (200, 1)])
_INDEXED = ("/n > 5 AND /s > 'B'", None, (None, None))
"""A question that is put to indexes whatever the records are."""


def _outcome(lab: Lab, options: QueryOptions) -> tuple[object, ...]:
    instance = lab.open()
    result = start_query(instance, resolve_targets(instance, "t"), options)
    records = [(record.key, record.value) for record in result.iterate_records()]
    numbers = [(s.examined, s.matched, s.returned) for s in result.statistics]
    return records, numbers


def _options(filter: str, order: str | None, page: tuple[int | None, int | None], index: int | None) -> QueryOptions:
    return QueryOptions(filter=filter, order_by=order, top_n=page[0], skip_n=page[1], index_from=index)


_GROUPS = st.sampled_from(
    [
        ("/s, COUNT(/n) AS /c, SUM(/n) AS /t, /id", "/s"),
        ("MIN(/v) AS /low, MAX(/n * 2) AS /high, /v AS /last", "/s, /n"),
        ("COUNT(1) AS /c", "/v"),
        ("LAST_UPDATED() AS /at, /s", "/s"),
        ("GROUP_CONCAT(/s) AS /all, ANY(/v) AS /any, UNIQUE(/n) AS /one, AVG(/n) AS /mean, /n", "/n"),
        ("SUM(/n * /id) AS /p, COUNT_DISTINCT(/v) AS /d, /v/deep AS /deep", "/s, /v"),
    ]
)


def _compare_groups(lab: Lab, asked: list[tuple[str, tuple[str, str]]]) -> None:
    for text, (projection, grouping) in asked:
        options = QueryOptions(filter=text, projection=projection, grouping=grouping, index_from=None)
        expected = _outcome(lab, options)
        for gain in (0, 1 << 40):  # by rows, and on columns
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(QUERY_LIMITS, "lasting_array_min_rows", 0 if gain else 1 << 60)
                with _by_indexes() as answers:
                    assert _outcome(lab, replace(options, index_from=0)) == expected, (text, projection, gain)
                assert all(answers), (text, projection, gain)


def _compare(lab: Lab, asked: list[tuple[str, str | None, tuple[int | None, int | None]]]) -> None:
    """Ask with and without indexes. They answer whatever is put to them, and :data:`_INDEXED` always is."""
    for text, order, page in (_INDEXED, *asked):
        with _by_indexes() as answers:
            expected = _outcome(lab, _options(text, order, page, None))
            assert answers == [], (text, order, page)
            assert _outcome(lab, _options(text, order, page, 0)) == expected, (text, order, page)
        assert all(answers), (text, order, page)
        assert answers or (text, order, page) != _INDEXED


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("values", [_VALUE, _NUMBERS, _TEXTS], ids=["mixed", "numbers", "texts"])
@settings(max_examples=examples(12), deadline=None)
@given(data=st.data())
def test_same_with_and_without_indexes(
    expires: bool, values: st.SearchStrategy[object], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("lab")
    part = "<Expiration>20s</Expiration>" if expires else ""
    lab = Lab(directory, config_xml(topic_xml("t", part), ("t",)))
    asked = data.draw(st.lists(st.tuples(_FILTERS, _ORDERS, _PAGES), min_size=1, max_size=4))
    groups = data.draw(st.lists(st.tuples(_FILTERS, _GROUPS), max_size=2))
    for _ in range(data.draw(st.integers(1, 3))):
        lab.publish("t", *(json.dumps(one) for one in data.draw(_messages(values))))
        if data.draw(st.booleans()):
            lab.open().topic("t").delete(filter="/id < 5")
        lab.clock.tick(data.draw(st.sampled_from([0, 1, 15])))
        _compare(lab, asked)
        _compare_groups(lab, groups)


@settings(max_examples=examples(10), deadline=None)
@given(messages=_messages(_VALUE), later=_messages(_VALUE), filter=_FILTERS)
def test_a_stale_damaged_or_missing_index_changes_nothing(
    messages: list[dict[str, object]],
    later: list[dict[str, object]],
    filter: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lab = Lab(tmp_path_factory.mktemp("lab"), config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", *(json.dumps(one) for one in messages))
    asked = [(filter, None, (None, None)), ("/n > 5", "/n", (3, None))]
    _compare(lab, asked)
    files = _memo_files(lab.directory)
    kept = {path: path.read_bytes() for path in files}
    for number, path in enumerate(files):
        raw = bytearray(kept[path])
        raw[(number * 37 + 61) % len(raw)] ^= 1 << number % 8
        path.write_bytes(raw)
        _compare(lab, asked)
        path.write_bytes(kept[path][: len(raw) // 2])
        _compare(lab, asked)
        path.unlink(missing_ok=True)
        _compare(lab, asked)
    lab.publish("t", *(json.dumps(one) for one in later))
    _compare(lab, asked)
    for path, data in kept.items():
        path.write_bytes(data)  # an index of an earlier state, put back
    _compare(lab, asked)


def _memo_files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.memo"))


def test_indexes_are_built_and_used(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", *(json.dumps({"id": number, "n": number, "s": "x"}) for number in range(50)))
    assert _memo_files(tmp_path) == []
    _outcome(lab, _options("/n > 45 AND /s = 'x'", None, (None, None), 0))
    assert len(_memo_files(tmp_path)) == 4
    from sowctl.engine.search.matcher import Matcher, build_environment
    from sowctl.engine.search.scan import open_access
    from sowctl.engine.sources.opener import open_present_source

    instance = lab.open()
    source = open_present_source(instance, resolve_targets(instance, "t")[0])
    matcher = Matcher("/n > 45 AND /s = 'x'", instance.find_message_type("json"), "t", build_environment(instance))
    found = open_access(instance, source, matcher, index_from=0)
    assert isinstance(found, index_access.IndexAccess)
    assert [step.records for step in found.plan.steps] == [4, 50]
    assert (found.plan.estimated, found.count_matching(), found.plan.residual) == (4, 4, ())
    source.close()

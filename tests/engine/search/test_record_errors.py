"""An evaluation error names its record, regardless of the way in which records are read and evaluated."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.verbs.upkeep.journal_search import SearchOptions, search_journal
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.errors import SowError
from sowctl.messages.json.limits import JSON_LIMITS
from tests.cli.conftest import Cli, cli  # noqa: F401 - a fixture
from tests.support.instances import Lab, config_xml, topic_xml

HOSTILE = "IF(/s LIKE '(a+)+$', 1, 0)"
RUNAWAY = 40 * "a" + "b"


@pytest.mark.parametrize("command", ["query", "subscribe"])
def test_projections_name_the_record(command: str, cli: Cli, tmp_path: Path) -> None:  # noqa: F811 - the fixture
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    lines = b'{"id":1,"s":"b"}\n{"id":2,"s":"' + RUNAWAY.encode() + b'"}\n{"id":3,"s":"b"}\n'
    assert cli("publish", "t", stdin=lines).status == 0
    key = json.loads(cli("key", "t", stdin=lines.splitlines()[1]).out)["sow_key"]
    run = cli(command, "t", "--projection", f"SUM({HOSTILE}) AS /n", "--grouping", "/id")
    assert (run.status, "SOW-EXP-030" in run.err) == (7, True), run.err
    assert f"record {key}: " in run.err


def message(number: int, bad: set[int]) -> str:
    text = RUNAWAY if number in bad else f"b{number}"
    # Messages of several shapes, so that the columns of one block come in parts.
    more = ("", ',"x":1', ',"y":[1,{"z":2}]')[number % 3]
    return f'{{"id":{number},"g":"g{number % 7}","s":"{text}"{more}}}'


def error_of(run: Callable[[], object]) -> tuple[str, str, str | None, str]:
    with pytest.raises(SowError) as found:
        run()
    error = found.value
    return error.code, error.message, error.place, error.facts["sow_key"]


@pytest.mark.parametrize("bad", [{3}, {50, 51, 52, 200}, {0, 299}, {120, 121}])
@pytest.mark.parametrize("index", ["", "".join(f"<HashIndex><Key>/{one}</Key></HashIndex>" for one in "sg")])
def test_columns_name_the_record_that_rows_name(
    bad: set[int], index: str, make_lab: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(config_xml(topic_xml("t", index), ("t",)))
    topic = lab.open().topic("t")
    topic.publish([message(number, bad) for number in range(300)])
    monkeypatch.setattr(JSON_LIMITS, "min_template_messages", 0)
    monkeypatch.setattr(QUERY_LIMITS, "index_min_records", 1)
    monkeypatch.setattr(QUERY_LIMITS, "index_min_requests", 1)

    def grouped(least: int, block: int) -> tuple[str, str, str | None, str]:
        projection = f"/g AS /g, SUM({HOSTILE}) AS /n"
        with patch.multiple(
            QUERY_LIMITS, lasting_array_min_rows=least, array_min_rows=least, group_batch_records=block
        ):
            return error_of(lambda: list(topic.query(projection=projection, grouping="/g")))

    wanted = grouped(1 << 60, 1 << 20)
    assert wanted[0] == "SOW-EXP-030"
    assert f"record {wanted[3]}: " in wanted[1]
    for block in (1 << 20, 64, 1):
        assert grouped(0, block) == wanted
    topic.publish([message(number, bad) for number in range(100, 200)])
    assert grouped(0, 64) == grouped(1 << 60, 64) == wanted


JOIN = "<Join>[t]./g = [u]./g</Join>"


@pytest.mark.parametrize("join", ["", JOIN])
@pytest.mark.parametrize("bad", [{3}, {50, 51, 52, 200}, {120, 121}])
def test_views_name_the_record(
    join: str, bad: set[int], make_lab: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    view = (
        "<View><Name>v</Name><MessageType>json</MessageType>"
        f"<UnderlyingTopic>{join or 't'}</UnderlyingTopic><Projection>"
        f"<Field>[t]./g AS /g</Field><Field>SUM({HOSTILE.replace('/s', '[t]./s')}) AS /n</Field></Projection>"
        "<Grouping><Field>[t]./g</Field></Grouping></View>"
    )
    lab = make_lab(config_xml(topic_xml("t") + topic_xml("u") + view, ("t", "u")))
    instance = lab.open()
    instance.topic("u").publish([f'{{"id":{number},"g":"g{number % 7}"}}' for number in range(20)])
    instance.topic("t").publish([message(number, set()) for number in range(300)])
    monkeypatch.setattr(JSON_LIMITS, "min_template_messages", 0)

    def shown(least: int, block: int) -> tuple[str, str, str | None, str]:
        with (
            patch.object(VIEW_LIMITS, "min_column_records", least),
            patch.object(QUERY_LIMITS, "group_batch_records", block),
        ):
            return error_of(lambda: list(instance.topic("v").query(at=lab.clock())))

    assert len(list(instance.topic("v").query().records())) == 7
    instance.topic("t").publish([message(number, bad) for number in range(300)])
    wanted = shown(1 << 60, 1000)
    assert wanted[0] == "SOW-EXP-030"
    assert f"record {wanted[3]}: " in wanted[1]
    assert wanted[2] == "t"
    for block in (1 << 20, 64, 1):
        assert shown(0, block) == wanted
    # The cache is updated row by row.
    assert error_of(lambda: list(instance.topic("v").query())) == wanted


def test_queues_and_searches_name_the_record(make_lab: Callable[..., Lab]) -> None:
    queue = (
        "<Queue><Name>q</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
        f"<Filter>{HOSTILE} = 1</Filter></Queue>"
    )
    lab = make_lab(config_xml(topic_xml("t") + queue, ("t", "q")))
    instance = lab.open()
    instance.topic("t").publish([message(number, {7}) for number in range(20)])
    wanted = error_of(lambda: list(instance.topic("t").query(f"{HOSTILE} = 1")))
    with closing(instance.queue("q")) as opened:
        assert error_of(lambda: list(opened.peek())) == wanted

    assert error_of(lambda: list(search_journal(instance, SearchOptions(filter=f"{HOSTILE} = 1")))) == wanted

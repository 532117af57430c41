"""Plans of queries, counting without reading, pages after a key, several processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from sowctl.engine.options import QueryOptions
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.plan import Plan, PlanStep
from sowctl.engine.topics.targets import resolve_targets
from sowctl.engine.verbs.explain import explain_query, format_plan
from sowctl.engine.verbs.query import start_query
from sowctl.errors import UsageError
from tests.support.instances import Lab, config_xml, message, topic_xml


def _fill(lab: Lab, count: int = 60) -> None:
    lab.publish("t", *(message(id=n, v=n, s=("x", "y")[n % 2]) for n in range(count)))


def _plan(lab: Lab, analyze: bool = False, **options: object) -> Plan:
    instance = lab.open()
    asked = QueryOptions(**options)  # type: ignore[arg-type]
    targets = resolve_targets(instance, "t")
    (plan,) = explain_query(
        lambda: start_query(instance, targets, asked), analyze=analyze, timer=iter((7.5, 7.5625)).__next__
    )
    return plan


def test_a_scan(lab: Lab) -> None:
    _fill(lab)
    plan = _plan(lab, filter="/v > 50 AND /s = 'x'", index_from=None, analyze=True)
    assert plan == Plan(
        "t",
        "json",
        "scan",
        60,
        60,
        residual=("/v > 50", "/s = 'x'"),
        examined=60,
        matched=4,
        returned=4,
        milliseconds=62.5,
    )
    assert format_plan(plan)[0] == "t (json): scan, 60 of 60 records"
    assert format_plan(plan)[-1] == "  actual    60 examined, 4 matched, 4 returned, 62.5 ms"


def test_indexes_conditions_and_what_is_behind(lab: Lab) -> None:
    _fill(lab)
    plan = _plan(lab, filter="/s = 'x' AND /v > 50 AND /v > /id - 1", index_from=0)
    assert plan.access == "memo index"
    assert plan.steps == (PlanStep("/v > 50", 9), PlanStep("/s = 'x'", 30))
    assert (plan.residual, plan.estimated, plan.examined) == (("/v > /id - 1",), 4, None)


def test_order_by_index_and_not(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(lab)
    assert _plan(lab, order_by="/v", top_n=3, skip_n=2, index_from=0).order == "the first 5 by index"
    assert _plan(lab, order_by="/v", top_n=3, index_from=None).order == "the first 3 of all that match"
    assert _plan(lab, order_by="/v", index_from=0).order == "sorted"
    assert _plan(lab).order == "by SOW key"
    monkeypatch.setattr(QUERY_LIMITS, "index_max_share", 0.001)
    assert _plan(lab, filter="/v > 5", index_from=0).access == "scan"


def test_hash_indexes_answer_exact_matches_on_all_their_fields(make_lab) -> None:  # type: ignore[no-untyped-def]
    """Seed example 38."""
    index = "<HashIndex><Key>/address/postalCode</Key><Key>/customerType</Key></HashIndex>"
    lab = make_lab(config_xml(topic_xml("t", index), ("t",)))
    kinds = ("retail", "remainder", "wholesale")
    payloads = [message(id=n, address={"postalCode": f"997{n % 9:02}x"}, customerType=kinds[n % 3]) for n in range(90)]
    lab.publish("t", *payloads)
    exact = "/address/postalCode = '99705x' AND /customerType = 'wholesale'"
    some = "/address/postalCode = '99705x' AND /customerType LIKE 'wholesale|remainder'"
    for text, way in (
        (exact, "hash index"),
        (exact.replace("= 'wholesale'", "IN ('retail', 'wholesale')"), "hash index"),
        (some, "memo index"),
        ("/address/postalCode = '99705x'", "memo index"),
        (f"{exact} AND /id > 3", "memo index"),
    ):
        assert _plan(lab, filter=text, index_from=0).access == way, text
        assert len(lab.query("t", text, index_from=0)) == len(lab.query("t", text, index_from=None)) > 0
    # A small topic is scanned; and a text that reads as a number also equals numbers, which have other texts.
    assert _plan(lab, filter=exact).access == "scan"
    assert _plan(lab, filter=exact.replace("99705x", "99705"), index_from=0).access == "memo index"


def test_keys_are_looked_up(lab: Lab) -> None:
    _fill(lab)
    plan = _plan(lab, sow_keys=("5", "6"))
    assert (plan.access, plan.estimated) == ("key lookup", 2)


def test_filters_that_name_keys(lab: Lab) -> None:
    lab.publish("t", *(message(id=f"k{n}", v=n) for n in range(30)))
    key = next(lab.open().topic("t").query("/id = 'k7'").records()).sow_key
    asked = {
        f"SOW_KEY() = '{key}'": [7],
        f"SOW_KEY() IN ('{key}', '5', 'x', '0{key}') AND /v > 3": [7],
        f"SOW_KEY() = {key}": [7],
        f"SOW_KEY() = '{key}' AND /v > 30": [],
        "/id[0] IN ('k3', 'k5', 'kk')": [3, 5],
        "/id[0] = 'k3' AND FALSE": [],
    }
    for text, expected in asked.items():
        plan = _plan(lab, filter=text)
        assert plan.access == "key lookup", text
        assert plan.estimated <= 3
        assert sorted(json.loads(row)["v"] for row in lab.query("t", text)) == expected
        result = lab.open().topic("t").query(text)
        assert (result.count(), result.statistics[0].examined) == (len(expected), 30)
    for text in ("/id = 'k3'", "SOW_KEY() <> '5'", "/id[0] = 'k3' OR /v = 3"):
        assert _plan(lab, filter=text).access == "scan", text


@pytest.mark.parametrize("filter", [None, "/v > 50", "/v > 50 AND /s = 'x'", "/v > /id"])
@pytest.mark.parametrize("top", [None, 3])
def test_counting_is_what_reading_would_count(lab: Lab, filter: str | None, top: int | None) -> None:
    _fill(lab)
    lab.open().topic("t").delete(filter="/id = 51")
    handle = lab.open().topic("t")
    expected = sum(map(len, handle.query(filter, top_n=top, index_from=None)))
    for index in (None, 0):
        result = handle.query(filter, top_n=top, index_from=index)
        assert result.count() == expected
        assert result.statistics[0].examined == 59


def test_pages_after_a_key_are_stable(lab: Lab) -> None:
    _fill(lab)
    handle = lab.open().topic("t")
    every = [record.sow_key for record in handle.query("/v > 9").records()]
    for index in (None, 0):
        found: list[int] = []
        after: str | None = None
        while page := list(handle.query("/v > 9", after_key=after, top_n=7, index_from=index).records()):
            found += [record.sow_key for record in page]
            after = str(found[-1])
            lab.publish("t", message(id=found[0] % 9 + 100, v=0))
        assert found == every


@pytest.mark.parametrize("given", [{"order_by": "/v"}, {"by_time": True}, {"after_key": "x"}])
def test_what_has_no_next_page(lab: Lab, given: dict[str, object]) -> None:
    _fill(lab, 3)
    with pytest.raises(UsageError) as caught:
        lab.query("t", **{"after_key": "5", **given})
    assert caught.value.code in ("SOW-QRY-016", "SOW-QRY-001")


SEVERAL = """
import json, os, sys, threading, time
import sowctl
from sowctl.engine.search.figures import QUERY_LIMITS
config, processes, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
QUERY_LIMITS.parallel_min_records = 10
children = []
fork = os.fork
os.fork = lambda: children.append(fork()) or children[-1]
for _ in range(threads):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
result = sowctl.open(config).topic("t").query("/v > 100 AND /s = 'y'", jobs=processes, index_from=None)
found = [record.payload.decode() for record in result.records()]
statistics = result.statistics[0]
print(json.dumps([len(children), statistics.examined, statistics.matched, found]))
"""


def _several(lab: Lab, jobs: int, threads: int = 0) -> list[Any]:
    """Return the output of ``SEVERAL`` in a new process: leftovers of other tests in this one affect forks."""
    command = [sys.executable, "-c", SEVERAL, str(lab.config), str(jobs), str(threads)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("jobs", [1, 2, 3, 5])
def test_any_number_of_processes_finds_the_same(lab: Lab, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(lab, 900)
    children, examined, matched, found = _several(lab, jobs)
    assert children == jobs - 1
    assert len(found) == 400
    assert found == lab.query("t", "/v > 100 AND /s = 'y'", jobs=1)
    assert (examined, matched) == (900, 400)
    monkeypatch.setattr(QUERY_LIMITS, "parallel_min_records", 10)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert _plan(lab, filter="/v > 100", jobs=jobs, index_from=None).processes == jobs


def test_a_process_with_threads_reads_alone(lab: Lab) -> None:
    """A fork would lose the threads, and keep the locks that they hold."""
    _fill(lab, 900)
    assert _several(lab, 3, threads=1) == [0, 900, 400, lab.query("t", "/v > 100 AND /s = 'y'", jobs=1)]

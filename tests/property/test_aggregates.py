"""Law: aggregates see a group's records in the order of their updates, by rows, on columns and as of a time alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sowctl.engine.options import QueryOptions
from sowctl.engine.search import figures
from sowctl.engine.topics.targets import resolve
from sowctl.engine.verbs.query import query
from tests.support.aggregates import GROUPING, PROJECTION, drawn_history, expected, spelled
from tests.support.instances import Lab, config_xml, topic_xml

ASKED = QueryOptions(projection=PROJECTION, grouping=GROUPING, index_from=None)


def _answer(lab: Lab, options: QueryOptions) -> dict[str, str]:
    instance = lab.open()
    rows = [json.loads(record.payload) for record in query(instance, resolve(instance, "t"), options).records()]
    return spelled({row["g"]: row for row in rows})


@pytest.mark.parametrize("seed", range(12))
def test_like_a_model_in_plain_python(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MOST", 1.0)
    monkeypatch.setattr(figures, "SEVERAL", 2)
    part = ("", "<Durability>transient</Durability>")[seed % 2]
    lab = Lab(tmp_path, config_xml(topic_xml("t", part), ("t",) if seed % 4 else ()))
    history: list[dict[str, Any]] = []
    moments: list[tuple[int, dict[str, str]]] = []
    for step in range(3):
        more = drawn_history(seed * 10 + step)
        lab.publish("t", *map(json.dumps, more))
        history += more
        wanted = spelled(expected(history))
        assert _answer(lab, ASKED) == wanted
        for on_columns in (False, True):
            monkeypatch.setattr(figures, "LASTING_ARRAYS", 0 if on_columns else 1 << 60)
            assert _answer(lab, replace(ASKED, index_from=0)) == wanted, on_columns
        moments.append((lab.clock.at, wanted))
        lab.clock.tick(5)
    if seed % 4:
        for at, wanted in moments:
            assert _answer(lab, replace(ASKED, at=at)) == wanted

"""Limits of evaluation in queries: the error has a code and the record's key, and programs can set the limits."""

from __future__ import annotations

from pathlib import Path

import pytest

import sowctl
from tests.support.instances import config_xml, topic_xml

RUNAWAY = "/s LIKE '(a|aa)+$'"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    rows = [f'{{"id":{number},"s":"{"a" * 26}b{number}"}}'.encode() for number in range(40)]
    sowctl.open(tmp_path / "sowctl.xml").topic("t").publish(rows)
    return tmp_path


@pytest.mark.parametrize(
    ("limits", "filter", "code"),
    [
        ({"pattern_steps": 8_000_000}, RUNAWAY, "SOW-EXP-034"),
        (
            {"value_bytes": 100_000},
            f"REPLACE(REPLACE(/s, 'a', '{'a' * 100}'), 'a', '{'b' * 100}') = 'x'",
            "SOW-EXP-035",
        ),
        ({"seconds": -1.0}, "LENGTH(/s) > 3", "SOW-EXP-036"),
    ],
)
def test_a_program_sets_the_bounds(shop: Path, limits: dict[str, float], filter: str, code: str) -> None:
    with sowctl.open(shop / "sowctl.xml", limits=sowctl.EvaluationLimits(**limits)) as instance:  # type: ignore[arg-type]
        topic = instance.topic("t")
        for call in (lambda: list(topic.query(filter)), lambda: topic.delete(filter=filter)):
            with pytest.raises(sowctl.LimitError) as caught:
                call()
            assert caught.value.code == code
            assert caught.value.exit_status == 7
            assert int(caught.value.facts["sow_key"]) > 0
    # Nothing was deleted.
    assert sowctl.open(shop / "sowctl.xml").topic("t").query().count() == 40

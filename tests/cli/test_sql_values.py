"""Values of SQL that JSON has no form for: each can be told from NULL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")

from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml


def test_not_a_number_and_intervals_are_texts(cli: Cli) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    statement = (
        "select 'nan'::double a, 'inf'::double b, ['-inf'::float] c, null::double d, interval 1 month e,"
        " interval '-1.5 seconds' f, interval 0 day g, interval '14 months 2 days 1 minute' h"
    )
    done = cli("sql", "--format", "ndjson", statement)
    assert done.status == 0
    assert json.loads(done.out) == {
        "a": "NaN",
        "b": "Infinity",
        "c": ["-Infinity"],
        "d": None,
        "e": "P1M",
        "f": "PT-1.5S",
        "g": "PT0S",
        "h": "P14M2DT60S",
    }

"""Lines for a person who watches a subscription."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sowctl.output.events import EventLines, PersonLines

AT = 1_767_603_621_562_000


def events(**facts: Any) -> Any:
    usual = {
        "command": "publish", "topic": "orders", "logical": None, "reason": None, "message_type": "json",
        "names": ["17023530598616992373"], "times": [AT], "payloads": [b'{"a":"\x1b[31m' + b"x" * 200 + b'"}'],
    }  # fmt: skip
    return cast("Any", SimpleNamespace(**usual | facts))


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_message_is_one_line_that_fits(columns: int) -> None:
    line = PersonLines(columns, several=False).format_events(events()).decode()
    assert line.count("\n") == 1
    assert len(line) <= columns + 1
    assert "09:00:21" in line
    assert "publish" in line
    assert "\x1b" not in line


def test_topics_are_told_apart_and_reasons_are_said() -> None:
    text = PersonLines(120, several=True).format_events(events(command="oof", reason="deleted")).decode()
    assert "2026-01-05T09:00:21.562  oof (deleted)  orders  17023530598616992373" in text
    assert "orders" not in PersonLines(120, several=False).format_events(events()).decode()


def test_a_key_takes_no_room_from_the_message_unless_there_is_none() -> None:
    def show(columns: int, **facts: Any) -> str:
        return PersonLines(columns, several=False).format_events(events(**facts)).decode()

    key = "17023530598616992373"
    assert key in show(120) and key not in show(80) and key not in show(40)
    assert key in show(80, payloads=[b""])


def test_groups_are_not_shown() -> None:
    lines = PersonLines(80, several=False)
    sign = SimpleNamespace(command="group_begin", topic="orders", timestamp=None)
    assert lines.format_sign(cast("Any", sign)) == b""
    sign.command = "completed"
    assert lines.format_sign(cast("Any", sign)) == b"completed\n"


def test_a_deletion_of_an_unknown_record_has_a_key_and_no_data() -> None:
    gone = events(
        command="sow_delete", reason="deleted", unknown=True, payloads=[b""], publishers=[7], sequences=[9],
        correlations=None, query_id=None, batch_size=None, txids=[9], sound=True,
    )  # fmt: skip
    told = json.loads(EventLines().format_events(gone))
    assert told["sow_key"] == "17023530598616992373" and told["bookmark"] == "7|9|"
    assert "data" not in told and "data_base64" not in told
    gone.message_type = "fix"
    assert PersonLines(80, several=False).format_events(gone).decode().endswith("17023530598616992373\n")

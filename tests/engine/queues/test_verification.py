"""Findings on the state of a queue: their kinds are those of the manual page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from sowctl.engine.queues.verification import FaultKind

PAGE = Path(__file__).parents[3] / "man" / "sow-queue.5"


def test_the_page_has_the_kinds_of_the_findings() -> None:
    table = PAGE.read_text().partition("in JSON a member")[2]
    rows = re.findall(r"^([a-z\\-]+)\tT\{$", table.partition(".TE")[0], re.MULTILINE)
    assert [row.replace("\\-", "-") for row in rows] == list(get_args(FaultKind))

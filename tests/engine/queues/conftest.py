"""Labs with queues, whose stores, journal and states are verified when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.instances import verified
from tests.support.queues import QueueLab, lab_xml, queue_xml

MakeQueueLab = Callable[..., QueueLab]


@pytest.fixture
def queues(tmp_path: Path) -> Iterator[MakeQueueLab]:
    """Create labs from child elements of one queue, or from a whole configuration."""
    with ExitStack() as stack:

        def make(*parts: str, xml: str | None = None) -> QueueLab:
            lab = QueueLab(tmp_path / "lab", xml or lab_xml(queue_xml(*parts)))
            stack.enter_context(verified(lab))
            return lab

        yield make

"""The store fixture of this suite: every lab is verified, byte by byte, when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.instances import Lab, config_xml, topic_xml, verified

MakeLab = Callable[..., Lab]

TOPICS = (
    topic_xml("t"),
    topic_xml("quotes", "<Expiration>30s</Expiration>"),
    topic_xml("own", key=None),
    topic_xml("past", "<History><Window>1h</Window><Granularity>10s</Granularity></History>"),
    topic_xml("alone"),
    topic_xml("fading", "<Expiration>enabled</Expiration>"),
)


@pytest.fixture
def make_lab(tmp_path: Path) -> Iterator[MakeLab]:
    """Create instances; the default has the topics t, quotes, own, past, fading (journalled) and alone (not)."""
    with ExitStack() as stack:

        def make(xml: str | None = None, name: str = "lab") -> Lab:
            chosen = xml or config_xml("".join(TOPICS), ("t", "quotes", "own", "past", "fading"))
            return stack.enter_context(verified(Lab(tmp_path / name, chosen)))

        yield make


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """The default instance."""
    return make_lab()

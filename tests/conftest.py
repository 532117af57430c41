"""Options and fixtures that every suite shares."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from sowctl.engine import reading

settings.register_profile("sowctl", deadline=None)
settings.load_profile("sowctl")
"""Laws are about results: how long one example takes depends on what else the machine does."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run the long form of crash, fuzz and soak suites")


def pytest_configure() -> None:
    """Hear the signals that shells and nohup let background jobs ignore: children would inherit that and not end."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """How the suite is shared out with ``-n``: a file stays together, and all that runs on Spark is one part.

    A file's tests share what its fixtures made; the tests on Spark share one session, which takes longer to start than
    most files. They come first: they are the longest part, and the other workers do the rest meanwhile.
    """
    home = Path(__file__).parent

    def part(item: pytest.Item) -> str:
        path = item.path.relative_to(home)
        return "spark" if path.parts[0] == "spark" else str(path)

    for item in items:
        item.add_marker(pytest.mark.xdist_group(part(item)))
    items.sort(key=lambda item: part(item) != "spark")


@pytest.fixture(scope="session")
def deep(request: pytest.FixtureRequest) -> bool:
    """Whether the long form was asked for (``--deep``)."""
    return bool(request.config.getoption("--deep"))


@pytest.fixture(autouse=True, scope="session")
def looks_always() -> Iterator[None]:
    """Filters look for their traces in every store, however few records it has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "LOOKING", 0)
        yield

"""Options and fixtures that every suite shares."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from sowctl.engine.search import matcher

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """How the suite is shared out with ``-n``: a file stays together, and all that runs on Spark is one part.

    A file's tests share what its fixtures made; the tests on Spark share one session, which takes longer to start than
    most files.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Parts(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "spark" if "/spark/" in file else file

    return Parts(config, log)


@pytest.fixture(scope="session")
def deep(request: pytest.FixtureRequest) -> bool:
    """Whether the long form was asked for (``--deep``)."""
    return bool(request.config.getoption("--deep"))


@pytest.fixture(autouse=True, scope="session")
def looks_always() -> Iterator[None]:
    """Filters look for their traces in every store, however few records it has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matcher, "LOOKING", 0)
        yield

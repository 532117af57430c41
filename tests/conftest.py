"""Options and fixtures that every suite shares."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run the long form of crash, fuzz and soak suites")


@pytest.fixture(scope="session")
def deep(request: pytest.FixtureRequest) -> bool:
    """Whether the long form was asked for (``--deep``)."""
    return bool(request.config.getoption("--deep"))

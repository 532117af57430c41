"""Options and fixtures that every suite shares."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from sowctl.engine.search.figures import QUERY_LIMITS
from tests.support.examples import LONG, SHORT, register
from tests.support.leftovers import State
from tests.support.objectstore import ENVIRONMENT, ObjectStore, serving

register()
settings.load_profile(SHORT)


ALONE = ("tests/crash/", "tests/property/")
"""Where every test makes all that it needs."""
APART = "tests/spark/apart/"
"""Where no test needs the session of Spark that others share."""
MEMORY = Path("/dev/shm")
ROOM = 2 << 30
"""Bytes that have to be free for temporary files in memory; all tests together leave less there than a tenth."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run the long form of crash, fuzz and soak suites")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the form of laws before their modules are read, and hear the signals that shells and nohup let background
    jobs ignore: children would inherit that and not end.
    """
    if config.getoption("--deep"):
        settings.load_profile(LONG)
    # Stores and journals sync all that they write: on a disk that is most of what the tests would wait for.
    if not os.environ.get("TMPDIR") and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what the collection made out of every later garbage collection: it is never garbage, and 26,000 tests with
    their modules took a sixteenth of the time of all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """How the suite is shared out with ``-n``: a file stays together, and all that runs on Spark is one part.

    A file's tests share what its fixtures made; the tests on Spark share one session, which takes longer to start than
    most files; those in ``tests/spark/apart`` do without it. The part on Spark is the longest and begins first. Tests
    that take long and share nothing are parts of their own: single tests come last, so that no processor waits long for
    another at the end.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Collection(list[str]):
        """The tests of a process; the place of each is looked up, not searched for."""

        def __init__(self, names: Sequence[str]) -> None:
            super().__init__(names)
            self._places = {name: place for place, name in enumerate(names)}

        def index(self, name: str, *_: Any) -> int:
            return self._places[name]

    class Parts(LoadScopeScheduling):
        def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
            super().add_node_collection(node, collection)
            if node in self.registered_collections:
                self.registered_collections[node] = Collection(collection)

        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if "/spark/" in file and not file.startswith(APART):
                return "spark"
            return nodeid if file.startswith(ALONE) else file

        def _assign_work_unit(self, node: Any) -> None:
            if "spark" in self.workqueue:
                self.workqueue.move_to_end("spark", last=False)
            super()._assign_work_unit(node)

        def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
            # Asked at the end of every test: parts that are done are counted once more and no further.
            for part in [part for part, tests in workload.items() if all(tests.values())]:
                del workload[part]
            return super()._pending_of(workload)

    return Parts(config, log)


@pytest.fixture(scope="session")
def deep(request: pytest.FixtureRequest) -> bool:
    """Whether the long form was asked for (``--deep``)."""
    return bool(request.config.getoption("--deep"))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> Iterator[int]:
    """A seed, from SOWCTL_SEED or new; printed when the test fails (pytest shows what a failing test printed)."""
    chosen = int(os.environ.get("SOWCTL_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print(f"SOWCTL_SEED={chosen} pytest '{request.node.nodeid}'")
    yield chosen


@pytest.fixture(autouse=True, scope="session")
def looks_always() -> Iterator[None]:
    """Filters look for their traces in every store, however few records it has; indexes are built when first asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QUERY_LIMITS, "prefilter_min_records", 0)
        patch.setattr(QUERY_LIMITS, "index_min_requests", 1)
        yield


@pytest.fixture(autouse=True, scope="module")
def leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    """A file whose tests leave a thread, a process, an open store or a variable behind fails: others run after it."""
    before = State()
    yield
    if left := before.left():
        pytest.fail(f"{request.node.nodeid} leaves behind\n" + "\n".join(left), pytrace=False)


@pytest.fixture(scope="session")
def _lake() -> Iterator[ObjectStore]:
    with serving() as store:
        yield store


@pytest.fixture
def lake(_lake: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """An object store with an empty bucket, and the environment that has its credentials."""
    pytest.importorskip("pyarrow")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    _lake.empty()
    return _lake

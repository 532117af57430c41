"""Absent keys and the contents of ranges, proven by the pages in which the keys would be."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.store.env import Store
from tests.support.stores import key_of, new_store

STORED = 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the keys :func:`key_of` of the numbers below :data:`STORED`."""
    return new_store(tmp_path_factory.mktemp("ordered") / "x.sow", STORED)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.lists(st.binary(min_size=8, max_size=8), max_size=60, unique=True))
def test_absent_keys_of_a_sound_store_are_absent(path: Path, keys: list[bytes]) -> None:
    stored = set(map(key_of, range(STORED)))
    keys = sorted(key for key in keys if key not in stored)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        assert snapshot.read_values(keys) == {}
        for low, high in pairwise(keys):
            found = {key for batch, _ in snapshot.scan_records(low, high) for key in batch}
            assert found == {key for key in stored if low <= key < high}

"""Proof that a key is not there: by its neighbours, once for every gap between them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.errors import DamageError
from sowctl.store.env import Store
from sowctl.store.ordered import Ordered
from tests.support.stores import key_of, new_store

STORED = 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the keys that :func:`key_of` makes of the numbers below :data:`STORED`."""
    return new_store(tmp_path_factory.mktemp("ordered") / "x.sow", STORED)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.lists(st.binary(min_size=8, max_size=8), max_size=60, unique=True), in_order=st.booleans())
def test_keys_share_the_look_at_a_gap(
    path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[bytes], in_order: bool
) -> None:
    stored = sorted(map(key_of, range(STORED)))
    keys = [key for key in (sorted(keys) if in_order else keys) if key not in stored]
    looks: list[bytes] = []
    original = Ordered._beside
    with monkeypatch.context() as patch, Store.open(path, write=False) as store, store.snapshot() as snapshot:
        patch.setattr(Ordered, "_beside", lambda self, cursor, key: (looks.append(key), original(self, cursor, key))[1])
        ordered = snapshot._records()
        ordered.verify_absence(keys)
        gaps = {sum(one < key for one in stored) for key in keys}
        assert len(looks) == len(gaps) if in_order else len(looks) >= len(gaps)
        for present in stored[::7]:
            number = int.from_bytes(present, "big")
            for near in (max(number - 1, 0), number + 1):
                with pytest.raises(DamageError, match="out of order"):
                    ordered.verify_absence([near.to_bytes(8, "big"), present])
            with pytest.raises(DamageError, match="out of order"):
                ordered.verify_absence([*keys, present])
            with pytest.raises(DamageError, match="out of order"):
                ordered.verify_absence(sorted([*keys, present]))

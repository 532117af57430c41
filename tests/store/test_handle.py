"""An open environment: what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

from sowctl.errors import RefusedError
from sowctl.store.env import Store
from tests.support.stores import batch, new_store


def test_a_handle_does_not_survive_a_fork(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=True) as store:
        pid = os.fork()
        if pid == 0:
            codes = []
            for action in (store.snapshot, lambda: store.write(lambda txn: None)):
                try:
                    action()
                except RefusedError as error:
                    codes.append(error.code)
            os._exit(0 if codes == ["SOW-STO-027"] * 2 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        store.write(lambda txn: txn.put(*batch(range(4), 2)))
        assert store.meta().records == 4

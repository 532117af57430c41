"""The state file of format version 1 remains readable: ``tests/formats/v1/state.queue`` was written once.

``dead.queue`` has the fields that were added to the rows of dead messages later.

It belongs to no journal: it is read row by row.
"""

from __future__ import annotations

import json
import shutil
from array import array
from pathlib import Path

from msgspec import to_builtins

from sowctl.seam import SEAM
from sowctl.store.queue.file import QueueFile
from sowctl.store.queue.page import BARRIER, DELAYED, DONE, LEASED, READY
from sowctl.store.queue.rows import StateRows
from sowctl.store.queue.values import Barrier, Dead, Holder, Minute, QueueState

GOLDEN = Path(__file__).parents[2] / "formats" / "v1" / "state.queue"
EXPECTED = GOLDEN.with_suffix(".json")
DEAD = GOLDEN.with_name("dead.queue")
DEAD_EXPECTED = GOLDEN.with_name("dead.json")
START = 1_767_225_600_000_000


def write_sample(path: Path) -> None:
    """Write everything that format version 1 can hold, from fixed inputs."""
    file = QueueFile(path, SEAM, boot=None, lock_wait=1)
    with file.begin_change() as rows:
        state = QueueState("orders/é", "json", b"0123456789abcdef", "epoch", START, b"L" * 16, 7, 400, (1, 4096, 9))
        state.position, state.token, state.holder, state.turn = (1, 9000, 400), START + 3, 2, 1
        state.entered, state.delivered, state.acked, state.cancelled, state.returned, state.requeued = range(300, 306)
        state.expired, state.minutes, state.whole = {"max_cancels": 1}, [Minute(START // 60_000_000, 1, 2, 3)], False
        rows.reset_state(state)
        page = rows.create_page(10)
        page.append_messages(
            array("Q", (10, 11, 12, 20, 30)),
            (1, 80, 9),
            states=bytes((DONE, READY, LEASED, DELAYED, BARRIER)),
            deliveries=(1, 0, 2, 3, 0),
            cancels=(0, 0, 0, 3, 0),
            holders=(0, 0, 1, 0, 0),
            tokens=(0, 0, START + 3, 0, 0),
            until=(0, 0, START + 5, START + 4, 0),
            expirations=(0, START + 9, 0, 0, 0),
            priorities=(0, 7, 1, 1 << 63, 0),
            publishers=(0, 5, 0, 0, 0),
            sequences=(0, 6, 0, 0, 0),
        )
        page.append_messages(array("Q", (40,)), (2, 81, 39))
        page.alarm = START + 4
        rows.add_holder(1, Holder("worker é", True, 42, "host", START, START + 1, 4, 8, START + 2, 1, 9, 8, 7, 6))
        rows.add_holder(2, Holder("by hand", False))
        rows.put_names([(5, 6)], [11])
        rows.put_barrier(30, Barrier([1], 2))
        rows.put_dead(5, Dead("max_cancels", 2, 1, START, (1, 80, 4), 5, 4, START + 9, 3))
        rows.put_deferral((5, 99), START + 100)
    file.close()


def write_dead_sample(path: Path) -> None:
    """Write a dead message of a worker, one whose lease expired, and one without further facts."""
    file = QueueFile(path, SEAM, boot=None, lock_wait=1)
    with file.begin_change() as rows:
        rows.reset_state(QueueState("orders", "json", b"0123456789abcdef", "epoch", START, b"L" * 16, 7, 400))
        facts = (2, 1, START, (1, 80, 4), 5)
        rows.put_dead(5, Dead("max_cancels", *facts, 4, 0, 3, "worker é", 137, "first\nlast é"))
        rows.put_dead(6, Dead("max_deliveries", *facts, 5, 0, 0, "worker"))
        rows.put_dead(7, Dead("max_deliveries", *facts, 6))
    file.close()


def _cut_defaults(row: list[object]) -> list[object]:
    """Return a row of a dead message without the fields that were added later, if these are empty."""
    return row[:9] if row[9:] == ["", None, ""] else row


def everything(rows: StateRows) -> dict[str, object]:
    """Return everything a reader of the rows gets, as JSON values."""
    found: dict[str, object] = {
        "state": {name: getattr(rows.state, name) for name in rows.state.__struct_fields__},
        "holders": {str(number): to_builtins(row) for number, row in rows.list_holders().items()},
        "barrier": to_builtins(rows.find_first_barrier()),
        "dead": {str(number): _cut_defaults(to_builtins(row)) for number, row in rows.list_dead_messages().items()},
        "named": [rows.find_named_txid((5, 6)), rows.find_deferral((5, 99))],
        "ready": list(rows.iter_ready_pages()),
        "alarms": [rows.list_alarm_pages(1 << 62), rows.find_next_alarm()],
        "held": rows.list_lease_pages(1),
    }
    for first in list(rows.iter_first_txids()):
        page = rows.load_page(first)
        columns = {name: getattr(page, name) for name in page.__struct_fields__ if name != "places"}
        found[f"page {first}"] = {
            name: list(one) if name != "alarm" and name != "ranked" else one for name, one in columns.items()
        }
        found[f"places {first}"] = [to_builtins(place) for place in page.places]
    plain: dict[str, object] = json.loads(
        json.dumps(found, default=lambda one: one.decode() if isinstance(one, bytes) else to_builtins(one))
    )
    return plain


def read(path: Path) -> dict[str, object]:
    file = QueueFile(path, SEAM, boot=None, lock_wait=1)
    try:
        with file.begin_change() as rows:
            return everything(rows)
    finally:
        file.close()


def test_the_golden_file_is_read(tmp_path: Path) -> None:
    shutil.copy(GOLDEN, tmp_path / "state.queue")
    assert read(tmp_path / "state.queue") == json.loads(EXPECTED.read_text())


def test_what_is_written_today_reads_the_same(tmp_path: Path) -> None:
    write_sample(tmp_path / "state.queue")
    assert read(tmp_path / "state.queue") == json.loads(EXPECTED.read_text())


def test_a_look_leaves_the_golden_file_as_it_is(tmp_path: Path) -> None:
    shutil.copy(GOLDEN, tmp_path / "state.queue")
    read(tmp_path / "state.queue")
    assert (tmp_path / "state.queue").read_bytes() == GOLDEN.read_bytes()


def test_dead_messages_with_what_their_commands_left(tmp_path: Path) -> None:
    shutil.copy(DEAD, tmp_path / "dead.queue")
    expected = json.loads(DEAD_EXPECTED.read_text())
    assert read(tmp_path / "dead.queue")["dead"] == expected
    write_dead_sample(tmp_path / "new.queue")
    assert read(tmp_path / "new.queue")["dead"] == expected

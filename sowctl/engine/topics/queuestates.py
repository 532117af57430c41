"""The state files of queues for code outside of queues: their paths, and how far they prove that the journal was
synced.

An entry of a queue (an acknowledgement, a requeue) is written and synced before the state is committed, and no store
applies it. So if a process ended between that commit and the update of its topics file, only the state proves that the
entry was acknowledged (``sow-journal(5)``, "What proves where a journal ends").
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.config.derived_entries import Queue
from sowctl.config.model import escape_file_name
from sowctl.errors import SowError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance

_BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")
_STATE_WAIT_SECONDS = 1.0
"""Maximum seconds to wait for a state in use: every process that changes it checks the journal itself."""


class QueuePosition(Struct, frozen=True):
    """A queue state's journal position: synced up to ``told``, read up to ``read``, which may not be synced."""

    path: Path
    lineage: bytes
    told: int
    read: int


def list_configured_queues(instance: Instance) -> tuple[Queue, ...]:
    """Return the queues of the configuration, in file order."""
    return tuple(entry for entry in (instance.config.sow if instance.config else ()) if isinstance(entry, Queue))


def build_state_path(instance: Instance, queue: Queue) -> Path:
    """Return the path of a queue's state file: in its instance's directory next to the journal files."""
    directory = find_states_directory(instance)
    assert directory is not None
    # As for the files of topics: name and type together, without slashes; no two queues share a file.
    return directory / escape_file_name(f"{queue.name}.{queue.message_type}.queue")


def find_states_directory(instance: Instance) -> Path | None:
    """Return the directory of state files, existing or not; None without a TransactionLog."""
    if instance.log is None or instance.config is None:
        return None
    return instance.log.directory / f"{instance.config.name}.queues"


def read_boot_id() -> str | None:
    """Return the id of the machine's current boot; None if there is none."""
    try:
        return _BOOT_ID_PATH.read_text("ascii").strip() or None
    except (OSError, ValueError):
        return None


def list_queue_positions(instance: Instance) -> list[QueuePosition]:
    """Return the journal positions of all state files, including those of queues that are no longer configured.

    A state that is unreadable, or from before the last boot, is skipped: its queue reports it.
    """
    directory = find_states_directory(instance)
    paths = sorted(directory.glob("*.queue")) if directory is not None else []
    if not paths:
        return []
    from sowctl.store.queue.file import QueueFile, is_changed_here

    found = []
    boot, wait = read_boot_id(), min(instance.lock_wait, _STATE_WAIT_SECONDS)
    for path in paths:
        # This process is changing this state, and would wait in vain for its own lock.
        if is_changed_here(path):
            continue
        try:
            with QueueFile(path, instance.seam, boot=boot, lock_wait=wait).open_rows() as rows:
                if rows is not None and not rows.is_new:
                    state = rows.state
                    found.append(QueuePosition(path, state.lineage, rows.written_txid, state.applied))
        except SowError:
            continue
    return found


def find_highest_synced(lineage: bytes, states: Iterable[QueuePosition]) -> int:
    """Return the highest txid of the journal of this lineage that a queue has written and synced; 0 for none.

    Not ``read``: readers take no lock, and may have seen entries that their writer withdrew when it could not sync
    them.
    """
    return max((state.told for state in states if state.lineage == lineage), default=0)

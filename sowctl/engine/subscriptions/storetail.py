"""Changes of a topic without a journal, read from its store's change list.

No entry records a message; the store only has the keys that were changed between two of its states, and their current
values. So of several messages for one key between two reads only the last one is delivered, and changes have no
bookmarks. If the list does not go back far enough, all records are read once: those with a higher txid have changed,
and keys that a feed holds but the store does not are deleted. Called by
:mod:`sowctl.engine.subscriptions.subscription`; specified in ``sow-store(5)``, "The change list".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sowctl.engine.fold.blocks import encode_tombstone
from sowctl.engine.subscriptions.changes import TopicChanges
from sowctl.engine.topics.positions import add_replay_hint, open_store, refuse_other_topic
from sowctl.store.codec import KEY_CHECK_SLICE, read_stamps

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.store.snapshot import Snapshot

_EMPTY_DIGEST = 0
"""The digest of a store without records: the state of a topic before it has a store."""


class StoreTail:
    """The changes of one topic's store after a state. ``applied`` is the txid of the state, in the store's own
    numbering."""

    def __init__(self, instance: Instance, topic: TopicConfig) -> None:
        self.topic = topic
        self.applied = 0
        self._instance = instance
        self._state: int | None = None

    def start_after(self, snapshot: Snapshot | None) -> None:
        """Start with the changes after the state of a snapshot; None: there was no store."""
        self.applied = 0 if snapshot is None else snapshot.meta.applied
        self._state = None if snapshot is None else snapshot.meta.state_number

    @property
    def change_stamp(self) -> tuple[int, int, int] | None:
        """The inode, time and size of the store's file, which differ after a change; None without a file."""
        assert self.topic.file is not None
        return read_file_stamp(self.topic.file)

    def poll_changes(self, held: Iterable[bytes]) -> TopicChanges | None:
        """Return the changes since the last call; ``held`` are the keys that a subscriber holds. Raises what opening
        the store raises.
        """
        path = self.topic.file
        assert path is not None
        if self.change_stamp is None:
            return None
        with add_replay_hint(self.topic), open_store(self._instance, path) as store, store.open_snapshot() as snapshot:
            refuse_other_topic(self.topic, snapshot.meta)
            return self.read_changes_until(snapshot, held)

    def read_changes_until(self, snapshot: Snapshot, held: Iterable[bytes]) -> TopicChanges | None:
        """Return the changes up to the state of a snapshot."""
        meta = snapshot.meta
        before = meta.number_state(_EMPTY_DIGEST) if self._state is None else self._state
        if meta.state_number == before:
            return None
        rows = sorted(self._find_changed_rows(snapshot, before, held), key=lambda row: (read_stamps(row[1])[0], row[0]))
        self.applied, self._state = meta.applied, meta.state_number
        ref = self.topic.ref
        return TopicChanges(ref, [key for key, _ in rows], [value for _, value in rows]) if rows else None

    def _find_changed_rows(
        self, snapshot: Snapshot, before: int, held: Iterable[bytes]
    ) -> Iterator[tuple[bytes, bytes]]:
        meta = snapshot.meta
        touched = snapshot.find_changed_keys(before)
        if touched is None:
            # The list was truncated: every record with a later txid is new, and held keys without a record are deleted.
            for keys, values in snapshot.scan_records():
                yield from (row for row in zip(keys, values, strict=True) if read_stamps(row[1])[0] > self.applied)
            touched = set(held)
            present = snapshot.read_values(sorted(touched))
        else:
            present = snapshot.read_values(sorted(touched))
            yield from present.items()
        nobody = bytes(KEY_CHECK_SLICE.stop - KEY_CHECK_SLICE.start)
        for key in touched.difference(present):
            # No entry has the time of the deletion: the store's last txid and time are its upper limit.
            yield key, encode_tombstone(key, nobody, meta.applied, meta.last_time)


def read_file_stamp(path: Path) -> tuple[int, int, int] | None:
    """Return the inode, time and size of a file; None if it does not exist."""
    try:
        found = os.stat(path)  # noqa: PTH116 - asked at every look
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size

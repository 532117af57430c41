"""The files of a journal as values for who archives or removes them: how large, how old, which entries they hold.

A file is told by its header and by the checkpoint of the file behind it, so that no block is read. Ruled by
``sow-journal(5)``, "Looking after files".
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from sowctl.journal.block import TopicState
from sowctl.journal.fileset import FileSet
from sowctl.journal.format import COMPRESSED_SUFFIXES
from sowctl.journal.listing import list_files
from sowctl.journal.state import EMPTY_TOPIC_STATE, JournalState
from sowctl.remote.place import require_local
from sowctl.seam import Seam
from sowctl.values.times import Micros
from sowctl.values.topicref import TopicRef


class SurveyedFile(Struct, frozen=True):
    """A file. ``paths`` are all copies of it, first the one that is read; ``size`` in bytes, of all of them on disk.

    ``finished``: when the next file was begun, None for the last one, which still grows. ``latest``: the time of its
    latest entry, 0 where it has none. ``last_txid`` and ``behind``, what is known of topics and publishers behind it,
    are None for the last one too. Times in microseconds UTC.
    """

    number: int
    paths: tuple[Path, ...]
    size: int
    first_txid: int
    last_txid: int | None
    finished: Micros | None
    latest: Micros
    behind: JournalState | None

    @property
    def path(self) -> Path:
        """The copy that is read."""
        return self.paths[0]

    @property
    def is_compressed(self) -> bool:
        """True if what is read is compressed."""
        return self.path.suffix in COMPRESSED_SUFFIXES

    @property
    def is_finished(self) -> bool:
        """True if it does not grow any more."""
        return self.finished is not None

    def compute_age(self, now: Micros) -> Micros | None:
        """For how long nothing was written to it, and nothing in it is newer; None for the file that grows."""
        return None if self.finished is None else now - max(self.finished, self.latest)

    def find_last_txid(self, topic: TopicRef) -> int:
        """The txid of the last entry of a topic in it or before it; 0 for none."""
        return self._topic_state(topic).last_txid

    def _topic_state(self, topic: TopicRef) -> TopicState:
        return EMPTY_TOPIC_STATE if self.behind is None else self.behind.topic_states.get(topic, EMPTY_TOPIC_STATE)


def survey_files(directory: Path, instance: str, seam: Seam, archive: Path | None = None) -> list[SurveyedFile]:
    """The files in order, of directories of this machine.

    Raises MissingError ``SOW-JRN-001``, DamageError for gaps, headers and checkpoints.
    """
    folder = FileSet(directory, instance, seam, archive)
    try:
        infos = folder.list_file_infos()
        paths = list_files(directory, instance, archive)
        found = []
        for info, following in zip(infos, [*infos[1:], None], strict=True):
            copies = tuple(paths.get(info.number, [require_local(info.path)]))
            # The next file begins with what was known then: the state behind this one, without a walk through it.
            behind = None if following is None else folder.read_checkpoint_state(following.number)
            found.append(
                SurveyedFile(
                    info.number,
                    copies,
                    sum(map(_get_file_size, copies)),
                    info.first_txid,
                    info.last_txid,
                    None if following is None else following.created,
                    _find_latest_time(behind, info.first_txid),
                    behind,
                )
            )
        return found
    finally:
        folder.close()


def _find_latest_time(behind: JournalState | None, first_txid: int) -> Micros:
    """The latest time of a file's entries: that of the last entry of each topic that has one in it."""
    # Times do not go back within a topic, so its last entry is its latest.
    if behind is None:
        return 0
    return max((known.last_time for known in behind.topic_states.values() if known.last_txid >= first_txid), default=0)


def _get_file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0

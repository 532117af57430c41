"""The files of a journal as values for archiving and removal: size, age, entries.

The facts come from the header of a file and the checkpoint of the next file, so that no block is read. Specified in
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
    """A journal file. ``paths`` are all its copies, the one that is read first; ``size`` is their total on disk in
    bytes.

    ``finished``: the time at which the next file was started, None for the last one, which still grows. ``latest``: the
    time of its latest entry, 0 without entries. ``last_txid`` and ``behind``, the state of topics and publishers at its
    end, are also None for the last one. Times in microseconds UTC.
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
        """True if the copy that is read is compressed."""
        return self.path.suffix in COMPRESSED_SUFFIXES

    @property
    def is_finished(self) -> bool:
        """True if the file does not grow any more."""
        return self.finished is not None

    def compute_age(self, now: Micros) -> Micros | None:
        """Return the time since the last write and the latest entry; None for the file that grows."""
        return None if self.finished is None else now - max(self.finished, self.latest)

    def find_last_txid(self, topic: TopicRef) -> int:
        """Return the txid of the last entry of a topic in this file or before it; 0 for none."""
        return self._topic_state(topic).last_txid

    def _topic_state(self, topic: TopicRef) -> TopicState:
        return EMPTY_TOPIC_STATE if self.behind is None else self.behind.topic_states.get(topic, EMPTY_TOPIC_STATE)


def survey_files(directory: Path, instance: str, seam: Seam, archive: Path | None = None) -> list[SurveyedFile]:
    """Return the files in local directories, in order.

    Raises MissingError ``SOW-JRN-001``, DamageError for gaps, headers and checkpoints.
    """
    folder = FileSet(directory, instance, seam, archive)
    try:
        infos = folder.list_file_infos()
        paths = list_files(directory, instance, archive)
        found = []
        for info, following in zip(infos, [*infos[1:], None], strict=True):
            copies = tuple(paths.get(info.number, [require_local(info.path)]))
            # The next file begins with the state at the end of this one, so this one need not be walked.
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
    """Return the latest time of a file's entries: the maximum over the last entries of its topics."""
    # Times do not decrease within a topic, so its last entry is its latest.
    if behind is None:
        return 0
    return max((known.last_time for known in behind.topic_states.values() if known.last_txid >= first_txid), default=0)


def _get_file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0

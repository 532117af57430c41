"""The sequence numbers of a stream's batches, which tell the checkpoint that they belong to (sowctl-spark(7), Writing).

Batch ids count from 0 in every checkpoint. Numbers made of them alone would make the batches of another checkpoint
repetitions of the old one's, and drop their rows. So below the number of a batch, counted from 1, stand a mark of the
query's id, which Spark keeps in the checkpoint, and one of the batch's plan. The topic keeps the highest one of a
publisher, in the transaction of the rows.

The plan of a batch is the file that Spark writes to the checkpoint before it runs the batch, and never again: it holds
the ends of its sources and the time of planning. So a repeated batch has the plan of the one that it repeats, and a
batch that another copy of the checkpoint plans does not, whatever its rows. Digests of rows could not tell this: rows
of a random number, or of a table that has changed since, differ when a batch is repeated.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from sowctl.errors import RefusedError, SowError
from sowctl.remote.place import Place
from sowctl.remote.remote_files import read_file

_MARK_BITS = 16
"""Of each of the two marks: of 65,536 faults one is not noticed. 2^31 batches fit above them in a BIGINT."""
_UNKNOWN_PLAN = 0
_NUMBER_BITS = 2 * _MARK_BITS
MAX_BATCH_ID = (1 << 31) - 2
"""The last batch that has a number."""


class StreamBatch(Struct, frozen=True):
    """A batch, by its id, of the query ``query_id``, which publishes as ``client`` to a topic.

    ``checkpoint`` is where Spark keeps the query's state; None where that is not known.
    """

    topic: str
    client: str
    query_id: str
    batch: int
    checkpoint: Place | None

    @property
    def sequence(self) -> int:
        """The sequence number of the batch. Raises RefusedError ``SOW-SPK-171`` behind the last batch with a number."""
        if self.batch > MAX_BATCH_ID:
            raise self._build_error()
        return (self.batch + 1 << _NUMBER_BITS) + (self._query_mark << _MARK_BITS) + self._read_plan_mark(self.batch)

    def is_repeated(self, highest: int) -> bool:
        """Return whether the batch was published before; ``highest`` is the publisher's highest sequence in the topic.

        Raises RefusedError ``SOW-SPK-171`` where the batch neither follows nor repeats what the query published.
        """
        if highest < 1 << _NUMBER_BITS:
            # Numbers without marks are those of batches that an earlier release wrote, or of another program.
            if self.batch + 1 > highest:
                return False
            raise self._build_error()
        number, marks = divmod(highest, 1 << _NUMBER_BITS)
        query_mark, plan_mark = divmod(marks, 1 << _MARK_BITS)
        # Spark repeats the last batch of a checkpoint at most; an earlier one was planned anew.
        if self._query_mark != query_mark or self.batch + 1 < number:
            raise self._build_error()
        # The plan of the last batch is still there when a later one is published, and shows that both have one past.
        own_mark = self._read_plan_mark(number - 1)
        if plan_mark != own_mark and _UNKNOWN_PLAN not in (plan_mark, own_mark):
            raise self._build_error()
        return self.batch + 1 == number

    @property
    def _query_mark(self) -> int:
        return int.from_bytes(sha256(self.query_id.encode()).digest()) % (1 << _MARK_BITS)

    def _read_plan_mark(self, batch: int) -> int:
        """The mark of a batch's plan; 0 where the checkpoint cannot be read here, or has forgotten the batch."""
        if self.checkpoint is None:
            return _UNKNOWN_PLAN
        place = self.checkpoint / "offsets" / str(batch)
        try:
            content = place.read_bytes() if isinstance(place, Path) else read_file(place)
        except (OSError, SowError):
            return _UNKNOWN_PLAN
        return int.from_bytes(sha256(content).digest()) % ((1 << _MARK_BITS) - 1) + 1

    def _build_error(self) -> RefusedError:
        return RefusedError(
            "SOW-SPK-171",
            f"batch {self.batch} of the checkpoint does not follow what {self.client!r} has published to topic "
            f"{self.topic}. Its rows were not written.",
            hint="restore the checkpoint of that queryName, or give the new checkpoint a queryName of its own",
        )

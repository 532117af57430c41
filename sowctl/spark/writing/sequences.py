"""The sequence numbers of a stream's batches, which identify their checkpoint (sowctl-spark(7), WRITING).

Batch ids count from 0 in every checkpoint. With only these as sequence numbers, batches of a new checkpoint would look
like repeated batches of the old one, and their rows would be dropped. So the low bits of a sequence number contain a
mark of the query's id, which Spark stores in the checkpoint, and a mark of the batch's plan; the high bits are the
number of the batch, counted from 1. The topic stores the highest sequence of a publisher, in the transaction of the
rows.

The plan of a batch is a file that Spark writes to the checkpoint once, before it runs the batch, with the end offsets
of its sources and the time of planning. So a repeated batch has the same plan, but a batch that another copy of the
checkpoint plans has a different one, even with equal rows. Digests of rows would not work: random numbers, or rows of a
table that has changed, differ when a batch is repeated.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from sowctl.errors import RefusedError, SowError
from sowctl.remote.place import Place
from sowctl.remote.remote_files import read_file

_MARK_BITS = 16
"""Bits of each mark: one of 65,536 mismatches is not detected. A BIGINT has room for 2^31 batches above the marks."""
_UNKNOWN_PLAN = 0
_NUMBER_BITS = 2 * _MARK_BITS
MAX_BATCH_ID = (1 << 31) - 2
"""The last batch id for which a sequence number exists."""


class StreamBatch(Struct, frozen=True):
    """The batch with id ``batch`` of the query ``query_id``, which publishes as ``client`` to a topic.

    ``checkpoint`` is the checkpoint directory of the query, None if unknown.
    """

    topic: str
    client: str
    query_id: str
    batch: int
    checkpoint: Place | None

    @property
    def sequence(self) -> int:
        """The sequence number of the batch. Raises RefusedError ``SOW-SPK-171`` if the id exceeds MAX_BATCH_ID."""
        if self.batch > MAX_BATCH_ID:
            raise self._build_error()
        return (self.batch + 1 << _NUMBER_BITS) + (self._query_mark << _MARK_BITS) + self._read_plan_mark(self.batch)

    def is_repeated(self, highest: int) -> bool:
        """Return whether the batch was already published; ``highest`` is the publisher's highest sequence in the topic.

        Raises RefusedError ``SOW-SPK-171`` if the batch neither follows nor repeats the last published batch.
        """
        if highest < 1 << _NUMBER_BITS:
            # Sequence numbers without marks were written by an earlier release or another program.
            if self.batch + 1 > highest:
                return False
            raise self._build_error()
        number, marks = divmod(highest, 1 << _NUMBER_BITS)
        query_mark, plan_mark = divmod(marks, 1 << _MARK_BITS)
        # Spark repeats only the last batch of a checkpoint, so an earlier one was planned again from an older copy.
        if self._query_mark != query_mark or self.batch + 1 < number:
            raise self._build_error()
        # The checkpoint still contains the plan of the last published batch; it must be the one that was published.
        own_mark = self._read_plan_mark(number - 1)
        if plan_mark != own_mark and _UNKNOWN_PLAN not in (plan_mark, own_mark):
            raise self._build_error()
        return self.batch + 1 == number

    @property
    def _query_mark(self) -> int:
        return int.from_bytes(sha256(self.query_id.encode()).digest()) % (1 << _MARK_BITS)

    def _read_plan_mark(self, batch: int) -> int:
        """Return the mark of a batch's plan, 0 if the checkpoint cannot be read or no longer contains the batch."""
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

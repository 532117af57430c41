"""The sequence numbers of a stream's batches, which tell the checkpoint that they belong to (sowctl-spark(7), Writing).

Batch ids count from 0 in every checkpoint. Numbers made of them alone would make the first batches of a new checkpoint
repetitions of the old one's, and drop their rows. So the number of a batch, counted from 1, stands above a mark of the
query's id, which Spark keeps in the checkpoint. The topic keeps the highest one of a publisher, in the transaction of
the rows: numbers of one checkpoint rise, and the last batch has the same one when it is repeated.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from sowctl.engine.topics.positions import open_store
from sowctl.engine.writing.session import read_recorded_sequence
from sowctl.errors import RefusedError
from sowctl.identity.hashes import hash_client_name

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance

_MARK_RANGE = 1 << 24
"""Different marks. That two checkpoints have the same one is as rare; 2^39 batches fit above them in a BIGINT."""


def find_batch_sequence(instance: Instance, topic: TopicConfig, client: str, query_id: str, batch: int) -> int:
    """The sequence of a batch of the query ``query_id``, which publishes as ``client``.

    Read without a lock: of two queries that write under one name at the same time, the next batch of one is refused.
    Raises RefusedError ``SOW-SPK-171`` where numbers of the publisher are not those of the query's checkpoint.
    """
    number, mark = batch + 1, int.from_bytes(sha256(query_id.encode()).digest()) % _MARK_RANGE
    highest = _read_highest_sequence(instance, topic, client)
    # Numbers without a mark are those of batches that an earlier release wrote, or of another program.
    last, last_mark = divmod(highest, _MARK_RANGE) if highest >= _MARK_RANGE else (highest + 1, mark)
    # Spark repeats the last batch of a checkpoint at most; an earlier one has entries that were planned anew.
    if mark == last_mark and number >= last:
        return number * _MARK_RANGE + mark
    raise RefusedError(
        "SOW-SPK-171",
        f"batch {batch} of the checkpoint does not follow what {client!r} has published to topic {topic.name}. "
        "Its rows were not written.",
        hint="restore the checkpoint of that queryName, or give the new checkpoint a queryName of its own",
    )


def _read_highest_sequence(instance: Instance, topic: TopicConfig, client: str) -> int:
    """The highest sequence of a publisher where the topic keeps it: in the journal, or in its store."""
    publisher = hash_client_name(client)
    if topic.journalled:
        return read_recorded_sequence(instance, publisher)
    if topic.file is None or not topic.file.exists():
        return 0
    with open_store(instance, topic.file) as store, store.open_snapshot() as snapshot:
        return snapshot.read_sequence(publisher) or 0

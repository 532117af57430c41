"""Changes of followed topics as stored values, read from a block of the journal.

They come from the blocks that :mod:`sowctl.engine.subscriptions.journal_tail` reads, or from a store's change list, and
go to the feeds (:mod:`sowctl.engine.subscriptions.feeds`). A deletion is a tombstone value, as everywhere. Specified in
``behaviour`` 4.1, 6.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from sowctl.engine.fold.blocks import find_entry_places, read_values_at
from sowctl.store.codec import KEY_SIZE
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.engine.subscriptions.interest import Interest
    from sowctl.journal.block import Block
    from sowctl.values.topicref import TopicRef


class TopicChanges(DescribedStruct):
    """Changes of one topic, in order: keys and stored values in parallel.

    ``publishers`` and ``sequences`` are the two parts of each entry's bookmark (decision 54); both are None for a topic
    without a journal, whose changes have no bookmarks. ``at_once``: the changes are the unordered difference of two
    states.
    """

    topic: TopicRef
    keys: Sequence[bytes]
    values: Sequence[bytes]
    publishers: Sequence[int] | None = None
    sequences: Sequence[int] | None = None
    at_once: bool = False

    def __len__(self) -> int:
        return len(self.keys)

    def select(self, places: Sequence[int]) -> TopicChanges:
        """Return some of the changes, by their indexes in ascending order."""
        if len(places) == len(self.keys):
            return self
        return TopicChanges(
            self.topic,
            [self.keys[place] for place in places],
            [self.values[place] for place in places],
            None if self.publishers is None else [self.publishers[place] for place in places],
            None if self.sequences is None else [self.sequences[place] for place in places],
            self.at_once,
        )


def iterate_block_changes(
    block: Block, interests: Mapping[TopicRef, Interest], owner: int, after: int, until: int | None
) -> Iterator[TopicChanges]:
    """Yield the followed entries of a block with ``after < txid <= until``, in txid order, one batch per run of a
    topic.

    ``owner``: the publisher id in bookmarks of entries without a publisher. Entries with other SOW keys than the
    followed ones are skipped before any message is read.
    """
    wanted = [topic for topic in block.topic_refs if topic in interests]
    if len(wanted) == 1:
        places = _find_entry_places(block, interests[wanted[0]], after, until)
        if places:
            yield _build_changes(block, wanted[0], places, owner)
        return
    # Entries of several topics are delivered in the order in which they were published.
    rows = sorted(
        (place, number)
        for number, topic in enumerate(wanted)
        for place in _find_entry_places(block, interests[topic], after, until)
    )
    for number, run in groupby(rows, key=lambda row: row[1]):
        yield _build_changes(block, wanted[number], [place for place, _ in run], owner)


def _find_entry_places(block: Block, interest: Interest, after: int, until: int | None) -> Sequence[int]:
    places = find_entry_places(block, interest.ref, after=after, until=until, unkeyed=not interest.has_keys)
    wanted = interest.sow_keys
    if wanted is None or not places:
        return places
    keys = bytes(block.decode_columns().keys)
    return [place for place in places if keys[KEY_SIZE * place : KEY_SIZE * (place + 1)] in wanted]


def _build_changes(block: Block, topic: TopicRef, places: Sequence[int], owner: int) -> TopicChanges:
    keys, values = read_values_at(block, places)
    columns, first = block.decode_columns(), block.first_txid
    whole = len(places) == len(block)
    numbers = columns.sequences.tolist() if whole else [columns.sequences[place] for place in places]
    if not any(numbers):
        # The instance numbers entries without a client sequence number: the number is the txid.
        return TopicChanges(topic, keys, values, [owner] * len(places), [first + place for place in places])
    hashes = [who for who, _ in block.publishers]
    publishers = [
        hashes[columns.publisher_indexes[place]] if number else owner
        for number, place in zip(numbers, places, strict=True)
    ]
    sequences = [number or first + place for number, place in zip(numbers, places, strict=True)]
    return TopicChanges(topic, keys, values, publishers, sequences)

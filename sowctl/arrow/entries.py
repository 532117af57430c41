"""Several blocks of a journal as one: their columns side by side, topics and publishers under common numbers.

Blocks are small, and what an array costs does not depend on how much is in it: the readers of journals put blocks
together before they make columns of them. sow-journal(5), "Columns".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from sowctl.arrow import arrays
from sowctl.identity.bookmarks import build_bookmark
from sowctl.identity.hashes import hash_client_name
from sowctl.journal.format import NO_PUBLISHER, OPERATIONS, PUBLISH, UNKEYED_FLAG

if TYPE_CHECKING:
    import pyarrow

    from sowctl.arrow.arrays import Numbers
    from sowctl.journal.block import Block
    from sowctl.values.topicref import TopicRef

T = TypeVar("T", bound=Hashable)


class EntryColumns:
    """The entries of some blocks, at least one. Columns are put together when first asked for."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._numbers = [block.decode_numpy_columns() for block in blocks]
        self.count = sum(map(len, blocks))

    def join_numbers(self, name: str) -> Numbers:
        """Join a column of numbers that mean the same in every block."""
        return _join_columns([getattr(columns, name) for columns in self._numbers])

    def join_texts(self, name: str) -> list[bytes | None] | None:
        """Join a column of texts; None where no entry has one."""
        columns = [getattr(one, name) for one in self._numbers]
        # Where no client has sent such a text, a column of Nones would cost a step for every entry.
        if not any(column is not None for column in columns):
            return None
        found: list[bytes | None] = []
        for block, column in zip(self._blocks, columns, strict=True):
            found += [None] * len(block) if column is None else column
        return found

    @property
    def txids(self) -> Numbers:
        """The transaction id of every entry."""
        import numpy as np

        return _join_columns([np.arange(block.first_txid, block.last_txid + 1) for block in self._blocks])

    @cached_property
    def lengths(self) -> Numbers:
        """The length of every message."""
        return self.join_numbers("lengths")

    @cached_property
    def operations(self) -> Numbers:
        """The operation of every entry."""
        return self.join_numbers("operations")

    @cached_property
    def topic_refs(self) -> tuple[list[TopicRef], Numbers]:
        """The topics of these entries, and the place of each entry's topic among them."""
        return self._common_dictionary(lambda block: block.topic_refs, "topic_indexes", None)

    @cached_property
    def clients(self) -> tuple[list[str], Numbers]:
        """The clients of these entries, and the place of each entry's; NO_PUBLISHER where none is named."""
        return self._common_dictionary(
            lambda block: [client for _, client in block.publishers], "publisher_indexes", NO_PUBLISHER
        )

    def list_payloads(self) -> list[memoryview]:
        """The messages of each block, back to back."""
        return [block.decompress_payloads() for block in self._blocks]

    def list_messages(self) -> list[bytes]:
        """Return one message per entry."""
        return [message for block in self._blocks for message in block.list_payloads()]

    def _common_dictionary(
        self, listed: Callable[[Block], list[T]], name: str, none: int | None
    ) -> tuple[list[T], Numbers]:
        import numpy as np

        lists = [listed(block) for block in self._blocks]
        # Blocks of one writer often list the same topics and publishers: then their numbers mean the same as they
        # stand.
        if all(one == lists[0] for one in lists):
            return lists[0], self.join_numbers(name)
        places: dict[T, int] = {}
        for one in lists:
            for item in one:
                places.setdefault(item, len(places))
        columns = []
        for one, numbers in zip(lists, self._numbers, strict=True):
            column = getattr(numbers, name)
            # One place more than there are items: an entry without a publisher is sent there, and comes out as
            # ``none``.
            known = np.array([*(places[item] for item in one), -1 if none is None else none], "i4")
            columns.append(known[column if none is None else np.where(column == none, len(one), column)])
        return list(places), np.concatenate(columns)


def _join_columns(columns: list[Numbers]) -> Numbers:
    import numpy as np

    return columns[0] if len(columns) == 1 else np.concatenate(columns)


_TEXT_COLUMNS = {"_logical_topic": "logical_topics", "_user_key": "user_keys", "_correlation_id": "correlation_ids"}


def build_entry_column(name: str, entries: EntryColumns, owner: int) -> pyarrow.Array:
    """Return a column that the data source ``sow-journal`` has besides the message.

    ``owner`` is in the bookmarks of entries without a client: the hash of the instance's name.
    """
    import pyarrow as pa

    if name == "_sow_key":
        return arrays.build_nullable_decimals(
            entries.join_numbers("keys"), (entries.join_numbers("flags") & UNKEYED_FLAG) == 0
        )
    if name == "_txid":
        return arrays.build_longs(entries.txids)
    if name == "_timestamp":
        return arrays.build_timestamps(entries.join_numbers("times"))
    if name == "_expiration":
        return arrays.build_expirations(entries.join_numbers("expirations"))
    if name in ("_topic", "_message_type"):
        topic_refs, places = entries.topic_refs
        return arrays.take_texts([topic[name == "_message_type"] for topic in topic_refs], places)
    if name == "_operation":
        return _operation_array(entries.operations)
    if name == "_client":
        clients, places = entries.clients
        return arrays.take_texts(clients, places, NO_PUBLISHER) if clients else pa.nulls(entries.count, pa.string())
    if name == "_bookmark":
        return pa.array(_bookmark_array(entries, owner), pa.string())
    if name == "_sequence":
        return arrays.build_nullable_longs(entries.join_numbers("sequences"), entries.join_numbers("sequences") != 0)
    return arrays.build_texts(entries.join_texts(_TEXT_COLUMNS[name]), entries.count)


def _bookmark_array(entries: EntryColumns, owner: int) -> list[str]:
    # Entries without a client's number have a bookmark of their instance (behaviour 11.54).
    clients, places = entries.clients
    ids = {place: hash_client_name(client) for place, client in enumerate(clients)}
    rows = zip(places.tolist(), entries.join_numbers("sequences").tolist(), entries.txids.tolist(), strict=True)
    return [str(build_bookmark(ids.get(place), sequence, txid, owner)) for place, sequence, txid in rows]


def _operation_array(codes: Numbers) -> pyarrow.Array:
    if (codes == PUBLISH).all():
        return arrays.build_constant("publish", len(codes))
    # Codes count from 1 without a gap, in the order of the table.
    return arrays.take_texts(list(OPERATIONS.values()), codes.astype("i4") - 1)

"""The rows that one change of a queue reads and writes: pages and their indexes (``sow-queue(5)``).

A change loads pages and modifies their columns, and :meth:`StateRows.flush` writes them: the indexes of ready messages,
of deadlines and of lease holders, and the counters of the state, follow from the difference between the old and the new
page. So no operation can forget one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout
from typing import TYPE_CHECKING, Any, TypeAlias

from sowctl.seam import Seam
from sowctl.store.queue.page import BARRIER, DELAYED, LEASED, READY, Page
from sowctl.store.queue.values import (
    Barrier,
    Dead,
    Holder,
    QueueState,
    damaged_queue_error,
    decode_state,
    decode_value,
    encode_state,
    encode_value,
)
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.store.opening.proof.transaction import ProvenTransaction

DATABASE_NAMES = ("meta", "pages", "ready", "alarms", "held", "names", "deferred", "due", "holders", "barriers", "dead")
STATE_KEY = b"state"
WRITTEN_TXID_KEY = b"told"
_U64 = Layout(">Q")
_PAIR = Layout(">QQ")
_TRIPLE = Layout(">QQQ")
MAX_TXID = (1 << 64) - 1
MAX_HOLDER_NUMBER = (1 << 32) - 1
"""Pages store the numbers of holders as u32."""
BookmarkName: TypeAlias = tuple[int, int]
"""Publisher and sequence of a bookmark."""


class _LoadedPage(DescribedStruct):
    """A page in this change, its row, and its current contribution to indexes and counters."""

    page: Page
    ready: set[int]
    held: set[int]
    alarm: int
    counts: tuple[int, int, int, int]
    raw: bytes | None


def _count_states(page: Page) -> tuple[int, int, int, int]:
    return page.count_state(READY), page.count_state(LEASED), page.count_state(DELAYED), page.count_state(BARRIER)


class StateRows:
    """The rows of a state file within one change. ``state`` is None in a newly created file.

    Raises DamageError ``SOW-QUE-002`` if the state is missing and the file has other rows.
    """

    def __init__(self, txn: ProvenTransaction, databases: dict[str, Any], seam: Seam, place: str) -> None:
        self._txn = txn
        self._databases = databases
        self._seam = seam
        self.place = place
        self._pages: dict[int, _LoadedPage] = {}
        # The page accessed last, and its last txid: messages usually come in sequence.
        self._near: tuple[int, int, Page] | None = None
        self._holders: dict[int, Holder] = {}
        self._has_names: bool | None = None
        self._told: int | None = None
        raw = self._get_row("meta", STATE_KEY)
        self._state = None if raw is None else decode_state(raw, place)
        if raw is None:
            self._verify_empty()

    def _verify_empty(self) -> None:
        """Raise DamageError unless every database is empty: the first change of a file also writes the state."""
        for name in DATABASE_NAMES:
            if next(self._iterate_row_keys(name), None) is not None:
                raise damaged_queue_error(f"the state is missing, but database {name!r} has rows", self.place)

    @property
    def is_new(self) -> bool:
        """True if nothing was written yet."""
        return self._state is None

    @property
    def state(self) -> QueueState:
        """The state, which may be changed in place."""
        assert self._state is not None
        return self._state

    @property
    def written_txid(self) -> int:
        """The txid of the last entry that a change of this state wrote to the journal, 0 for none."""
        if self._told is None:
            raw = self._get_row("meta", WRITTEN_TXID_KEY)
            self._told = 0 if raw is None else self._decode_numbers(_U64, raw)[0]
        return self._told

    @written_txid.setter
    def written_txid(self, txid: int) -> None:
        self._told = txid

    def reset_state(self, state: QueueState) -> None:
        """Empty the file and set its new ``state``."""
        self._pages.clear()
        self._holders.clear()
        self._near = self._has_names = None
        # A new state proves nothing about the journal, which may be another one.
        self._told = 0
        for name in DATABASE_NAMES:
            self._seam.call("lmdb.put", self._txn.drop, self._databases[name])
        self._state = state

    # Pages

    def load_page(self, first: int) -> Page:
        """Return the page whose first message has this txid; :meth:`flush` writes its changes."""
        found = self._pages.get(first)
        if found is None:
            raw = self._get_row("pages", _U64.pack(first))
            if raw is None:
                raise damaged_queue_error(f"the page of txid {first} is missing", self.place)
            found = self._load_row(first, raw)
        return found.page

    def find_page(self, txid: int) -> tuple[int, Page] | None:
        """Return the first txid and the page in which a message would be; None if it is before all pages."""
        near = self._near
        if near is not None and near[0] <= txid <= near[1]:
            return near[0], near[2]
        first = self._find_page_start(txid)
        # New pages of this change are not in the file yet; there are few.
        made = [one for one, loaded in self._pages.items() if loaded.raw is None and one <= txid]
        if made and (first is None or max(made) > first):
            first = max(made)
        if first is None:
            return None
        page = self.load_page(first)
        self._near = first, page.txids[-1] if page.txids else first, page
        return first, page

    def find_last_page(self) -> tuple[int, Page] | None:
        """Return the page to which new messages are appended; None if there is none."""
        return self.find_page(MAX_TXID)

    def create_page(self, first: int) -> Page:
        """Create a page for messages from this txid on."""
        page = Page.create_empty()
        self._pages[first] = _LoadedPage(page, set(), set(), 0, (0, 0, 0, 0), None)
        self._near = None
        return page

    def iter_first_txids(self, start: int = 0) -> Iterator[int]:
        """Yield the first txids of the pages in the file, from ``start`` on, in order."""
        for key in self._iterate_row_keys("pages", _U64.pack(start)):
            yield self._decode_numbers(_U64, key)[0]

    def find_first_pending(self) -> int | None:
        """Return the txid of the oldest unfinished message."""
        for first in self.iter_first_txids():
            page = self.load_page(first)
            index = page.find_first_pending()
            if index < len(page):
                return page.txids[index]
        return None

    # Indexes; as of the last flush

    def iter_ready_pages(self) -> Iterator[tuple[int, int]]:
        """Yield priority and first txid of the pages with ready messages, in the order of delivery."""
        for key in self._iterate_row_keys("ready"):
            inverted, first = self._decode_numbers(_PAIR, key)
            yield MAX_TXID - inverted, first

    def iter_ready_pages_before(self, limit: int) -> Iterator[int]:
        """Yield the first txids of the pages with ready messages that begin before the txid ``limit``, each once."""
        seen = set()
        # The whole index is scanned: it is ordered by priority, and lists a page once per priority.
        for _, first in self.iter_ready_pages():
            if first < limit and first not in seen:
                seen.add(first)
                yield first

    def list_alarm_pages(self, until: int, most: int | None = None) -> list[int]:
        """Return the pages with a deadline at or before ``until``, earliest first; at most ``most``."""
        found: list[int] = []
        for key in self._iterate_row_keys("alarms"):
            instant, first = self._decode_numbers(_PAIR, key)
            if instant > until or len(found) == most:
                break
            found.append(first)
        return found

    def find_next_alarm(self) -> int:
        """Return the next instant with a possible deadline, 0 for none."""
        for key in self._iterate_row_keys("alarms"):
            instant: int = self._decode_numbers(_PAIR, key)[0]
            return instant
        return 0

    def list_lease_pages(self, holder: int) -> list[int]:
        """Return the pages with leases of a holder."""
        found = []
        for key in self._iterate_row_keys("held", _PAIR.pack(holder, 0)):
            who, first = self._decode_numbers(_PAIR, key)
            if who != holder:
                break
            found.append(first)
        return found

    # Bookmarks of clients

    def find_named_txid(self, name: BookmarkName) -> int | None:
        """Return the txid of the pending message with a client's bookmark."""
        raw = self._get_row("names", _PAIR.pack(*name)) if self.has_names else None
        return None if raw is None else self._decode_numbers(_U64, raw)[0]

    @property
    def has_names(self) -> bool:
        """True if any message has a client's bookmark; most queues have none."""
        if self._has_names is None:
            self._has_names = next(self._iterate_row_keys("names"), None) is not None
        return self._has_names

    def put_names(self, names: list[BookmarkName], txids: list[int]) -> None:
        """Store the bookmarks of new messages."""
        self._has_names = None
        for name, txid in zip(names, txids, strict=True):
            self._put_row("names", _PAIR.pack(*name), _U64.pack(txid))

    def drop_name(self, name: BookmarkName) -> None:
        """Remove a bookmark."""
        self._delete_row("names", _PAIR.pack(*name))

    def put_deferral(self, name: BookmarkName, until: int) -> None:
        """Store until ``until`` that the message of a bookmark, which has not arrived yet, is acknowledged."""
        self.drop_deferral(name)
        self._put_row("deferred", _PAIR.pack(*name), _U64.pack(until))
        self._put_row("due", _TRIPLE.pack(until, *name), b"")

    def find_deferral(self, name: BookmarkName) -> int | None:
        """Return the time until which the acknowledgement of a message that has not arrived is stored; None for
        none."""
        raw = self._get_row("deferred", _PAIR.pack(*name))
        return None if raw is None else self._decode_numbers(_U64, raw)[0]

    def drop_deferral(self, name: BookmarkName) -> bool:
        """Remove such an acknowledgement; return whether it existed."""
        until = self.find_deferral(name)
        if until is None:
            return False
        self._delete_row("deferred", _PAIR.pack(*name))
        self._delete_row("due", _TRIPLE.pack(until, *name))
        return True

    def has_deferrals(self) -> bool:
        """Return whether any acknowledgement waits for its message."""
        return next(self._iterate_row_keys("deferred"), None) is not None

    def drop_expired_deferrals(self, now: int) -> int:
        """Remove expired acknowledgements; return their number."""
        over = []
        for key in self._iterate_row_keys("due"):
            until, publisher, sequence = self._decode_numbers(_TRIPLE, key)
            if until > now:
                break
            over.append((publisher, sequence))
        for name in over:
            self.drop_deferral(name)
        return len(over)

    # Holders, barriers, dead messages

    def list_holders(self) -> dict[int, Holder]:
        """Return all holders by their numbers."""
        for key, raw in self._iterate_row_items("holders"):
            number = self._decode_numbers(_U64, key)[0]
            if number not in self._holders:
                self._holders[number] = self._unpack_holder(number, raw)
        return dict(sorted(self._holders.items()))

    def load_holder(self, number: int) -> Holder | None:
        """Return a holder, which may be changed in place."""
        found = self._holders.get(number)
        if found is None:
            raw = self._get_row("holders", _U64.pack(number))
            if raw is None:
                return None
            found = self._holders[number] = self._unpack_holder(number, raw)
        return found

    def _unpack_holder(self, number: int, raw: bytes) -> Holder:
        found: Holder = self._decode_row_value(raw, Holder)
        # The checksum does not cover the number; numbers are assigned in order.
        if not 0 < number <= min(self.state.holder, MAX_HOLDER_NUMBER):
            raise damaged_queue_error(f"a holder has the invalid number {number}", self.place)
        return found

    def verify_leases_of_holder(self, number: int) -> None:
        """Raise DamageError if the leases of a holder in the pages contradict its counter.

        As of the last flush: this detects the row of a holder whose number is damaged.
        """
        holder = self.load_holder(number)
        held = next(self._iterate_row_keys("held", _PAIR.pack(number, 0)), None)
        has_pages = held is not None and self._decode_numbers(_PAIR, held)[0] == number
        if has_pages != (holder is not None and holder.in_flight > 0):
            raise damaged_queue_error(f"the leases of holder {number} do not match its counter", self.place)

    def add_holder(self, number: int, holder: Holder) -> None:
        """Add or replace a holder."""
        self._holders[number] = holder

    def drop_holder(self, number: int) -> None:
        """Remove a holder."""
        self._holders.pop(number, None)
        self._delete_row("holders", _U64.pack(number))

    def find_first_barrier(self) -> tuple[int, Barrier] | None:
        """Return the oldest barrier and its txid."""
        for key, raw in self._iterate_row_items("barriers"):
            return self._decode_numbers(_U64, key)[0], self._decode_row_value(raw, Barrier)
        return None

    def put_barrier(self, txid: int, barrier: Barrier) -> None:
        """Write a barrier."""
        self._put_row("barriers", _U64.pack(txid), encode_value(barrier))

    def drop_barrier(self, txid: int) -> None:
        """Remove a barrier."""
        self._delete_row("barriers", _U64.pack(txid))

    def list_dead_messages(self) -> dict[int, Dead]:
        """Return the dead messages by txid."""
        return {
            self._decode_numbers(_U64, key)[0]: self._decode_row_value(raw, Dead)
            for key, raw in self._iterate_row_items("dead")
        }

    def read_dead_message(self, txid: int) -> Dead | None:
        """Return one dead message."""
        raw = self._get_row("dead", _U64.pack(txid))
        return None if raw is None else self._decode_row_value(raw, Dead)

    def put_dead(self, txid: int, dead: Dead) -> None:
        """Store a dead message."""
        self._put_row("dead", _U64.pack(txid), encode_value(dead))
        self.state.dead += 1

    def drop_dead(self, txid: int) -> None:
        """Remove an existing dead message."""
        self._delete_row("dead", _U64.pack(txid))
        self.state.dead -= 1

    # Writing

    def flush(self) -> None:
        """Write the pages of this change, their index rows and the resulting counters."""
        for first, loaded in self._pages.items():
            page = loaded.page
            over = page.is_finished
            self._settle_index(
                "ready", first, loaded.ready, set() if over else page.list_ready_priorities(), inverted=True
            )
            self._settle_index("held", first, loaded.held, set() if over else page.list_holders(), inverted=False)
            if over:
                page.alarm = 0
            if page.alarm != loaded.alarm:
                if loaded.alarm:
                    self._delete_row("alarms", _PAIR.pack(loaded.alarm, first))
                if page.alarm:
                    self._put_row("alarms", _PAIR.pack(page.alarm, first), b"")
            self._update_counts(loaded.counts, _count_states(page))
            if not over:
                # A page that was only read is not written.
                if (raw := page.encode()) != loaded.raw:
                    self._put_row("pages", _U64.pack(first), raw)
            elif loaded.raw is not None:
                self._delete_row("pages", _U64.pack(first))
        self._pages.clear()
        self._near = None

    def finish(self) -> None:
        """Write all changes."""
        self.flush()
        for number, holder in self._holders.items():
            self._replace_row("holders", _U64.pack(number), encode_value(holder))
        if self._state is not None:
            self._replace_row("meta", STATE_KEY, encode_state(self._state))
        if self._told:
            self._replace_row("meta", WRITTEN_TXID_KEY, _U64.pack(self._told))

    def _settle_index(self, name: str, first: int, before: set[int], after: set[int], *, inverted: bool) -> None:
        for gone in before - after:
            self._delete_row(name, _PAIR.pack(MAX_TXID - gone if inverted else gone, first))
        for new in after - before:
            self._put_row(name, _PAIR.pack(MAX_TXID - new if inverted else new, first), b"")

    def _update_counts(self, before: tuple[int, int, int, int], after: tuple[int, int, int, int]) -> None:
        state = self.state
        state.ready += after[0] - before[0]
        state.leased += after[1] - before[1]
        state.delayed += after[2] - before[2]
        state.barriers += after[3] - before[3]

    def _load_row(self, first: int, raw: bytes) -> _LoadedPage:
        try:
            page = Page.decode(raw)
        except ValueError as problem:
            raise damaged_queue_error(f"from txid {first} on: {problem}", self.place) from None
        loaded = _LoadedPage(
            page, page.list_ready_priorities(), page.list_holders(), page.alarm, _count_states(page), raw
        )
        self._pages[first] = loaded
        return loaded

    def _find_page_start(self, txid: int) -> int | None:
        with self._txn.cursor(db=self._databases["pages"]) as cursor:
            if cursor.set_range(_U64.pack(txid)):
                if bytes(cursor.key()) == _U64.pack(txid):
                    return txid
                found = cursor.prev()
            else:
                found = cursor.last()
            return self._decode_numbers(_U64, cursor.key())[0] if found else None

    def verify_structure(self) -> None:
        """Verify every page of the file, except for the values in them. Raises DamageError."""
        self._txn.verify_all()

    def collect_lease_index(self) -> set[tuple[int, int]]:
        """Return holder and first txid of the pages with leases."""
        return {
            (who, first) for who, first in (self._decode_numbers(_PAIR, key) for key in self._iterate_row_keys("held"))
        }

    def collect_alarm_index(self) -> set[tuple[int, int]]:
        """Return instant and first txid of the pages with deadlines."""
        return {
            (instant, first)
            for instant, first in (self._decode_numbers(_PAIR, key) for key in self._iterate_row_keys("alarms"))
        }

    def collect_name_index(self) -> dict[BookmarkName, int]:
        """Return the txids of the messages with clients' bookmarks, by bookmark."""
        return {
            self._encode_name(key): self._decode_numbers(_U64, raw)[0] for key, raw in self._iterate_row_items("names")
        }

    def collect_deferral_index(self) -> tuple[set[tuple[int, ...]], set[tuple[int, ...]]]:
        """Return instant, publisher and sequence of acknowledgements without a message: by bookmarks, and by
        instants."""
        named: set[tuple[int, ...]] = set()
        for key, raw in self._iterate_row_items("deferred"):
            named.add((*self._decode_numbers(_U64, raw), *self._decode_numbers(_PAIR, key)))
        return named, {self._decode_numbers(_TRIPLE, key) for key in self._iterate_row_keys("due")}

    def _encode_name(self, key: bytes) -> BookmarkName:
        publisher, sequence = self._decode_numbers(_PAIR, key)
        return publisher, sequence

    def _decode_numbers(self, layout: Layout, raw: bytes) -> tuple[int, ...]:
        """Decode the numbers of a key or a value. Raises DamageError."""
        if len(raw) != layout.size:
            raise damaged_queue_error("a row does not belong to its database", self.place)
        return layout.unpack(raw)

    def _decode_row_value(self, raw: bytes, kind: type[Any]) -> Any:
        try:
            return decode_value(raw, kind)
        except ValueError as problem:
            raise damaged_queue_error(str(problem), self.place) from None

    def _get_row(self, name: str, key: bytes) -> bytes | None:
        found: Any = self._txn.get(key, db=self._databases[name])
        return None if found is None else bytes(found)

    def _put_row(self, name: str, key: bytes, value: bytes) -> None:
        self._seam.call("lmdb.put", self._txn.put, key, value, db=self._databases[name])

    def _replace_row(self, name: str, key: bytes, value: bytes) -> None:
        """Write a row unless it is unchanged: reading alone writes nothing."""
        if self._get_row(name, key) != value:
            self._put_row(name, key, value)

    def _delete_row(self, name: str, key: bytes) -> None:
        self._seam.call("lmdb.put", self._txn.delete_many, (key,), db=self._databases[name])

    def _iterate_row_keys(self, name: str, start: bytes = b"") -> Iterator[bytes]:
        """Yield the keys from ``start`` on; nothing may be written to this database meanwhile."""
        with self._txn.cursor(db=self._databases[name]) as cursor:
            if cursor.set_range(start) if start else cursor.first():
                for key in cursor.iternext(keys=True, values=False):
                    yield bytes(key)

    def _iterate_row_items(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        with self._txn.cursor(db=self._databases[name]) as cursor:
            if cursor.first():
                for key, value in cursor.iternext():
                    yield bytes(key), bytes(value)

"""A partial check of a store: always its structure, and the data whose last check is oldest (``sow-store(5)``).

Runs in the process of a check, started by :mod:`sowctl.store.check`. Keys are divided at the keys of branches, so that
all parts have about the same number of pages; a part consists of records and versions of the same keys.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import lmdb
from msgspec.structs import replace

from sowctl.errors import DamageError, SowError
from sowctl.findings import Finding, Level, Place
from sowctl.seam import SEAM
from sowctl.store import codec
from sowctl.store.check import CheckScope, StoreCoverage
from sowctl.store.codec import encode_expiry_value, extract_sow_key
from sowctl.store.examine import ProgressCallback, StoreExamination, examine_store, ignore_progress, write_findings
from sowctl.store.opening.handle import Handle
from sowctl.store.opening.meta_pages import read_verified_meta
from sowctl.store.repair.checked_ranges import KEY_SPACE_END, CheckedRanges, read_checked_ranges
from sowctl.store.repair.pagefile import PageFile
from sowctl.store.repair.structure import StructureCheck, Unit
from sowctl.store.write import build_expiry_entries


class PartialExamination(StoreExamination):
    """One run over a part of a store, in one read transaction."""

    def __init__(self, handle: Handle, txn: Any, note: Callable[[str], None], reading: CheckScope) -> None:
        super().__init__(handle, txn, note)
        self._handle, self._reading = handle, reading
        self._units: list[Unit] = []
        self._verified: CheckedRanges = read_checked_ranges(handle.files.path)
        self._pages = 0
        self._read: list[Unit] = []

    def iter_findings(self) -> Iterator[Finding]:
        """Yield the problems of the structure, and of the part that is read."""
        yield from self._read_spare_page()
        yield from self._read_meta()
        yield from self._check_structure()
        if self.meta is not None:
            self.note("its counts")
            for what, database, stated in (
                ("records", self.databases.records, self.meta.records),
                ("versions", self.databases.history, self.meta.versions),
            ):
                # LMDB counts entries itself, so this detects missing records without reading any.
                entries = self.txn.stat(database)["entries"]
                if entries != stated:
                    message = f"LMDB has {entries} {what}, but the counter is {stated}"
                    yield self._build_finding("SOW-STO-051", message, "meta")
        yield from self._check_data()

    def _check_structure(self) -> Iterator[Finding]:
        path = self._handle.files.path
        self.note("its branches")
        state = read_verified_meta(path, SEAM)
        if state.txnid != int(self.txn.id()):
            self.skipped.append("structure: a writer was active during the check")
            return
        with PageFile(path, state.page_size, SEAM) as file:
            structure = StructureCheck(file, state)
            faults = structure.iter_faults()
            if self._handle.watch is not None:
                # Pages of this state stay while its transaction is open; without locks a writer may have reused them
                # for another state, which is known only afterwards.
                faults = iter(list(faults))
                self.require_one_state()
            for words, damage in faults:
                if damage:
                    yield self._build_finding("SOW-STO-056", words, "pages")
                    continue
                hint = "sowctl store compact reclaims the space"
                yield Finding("SOW-STO-057", Level.WARNING, Place(self.path, element="pages"), words, hint)
            self._pages, self._units = structure.pages, structure.list_units()

    def _check_data(self) -> Iterator[Finding]:
        reading, started = self._reading, time.monotonic()
        total = sum(unit.pages for unit in self._units)
        chosen = self._choose_units()
        # A share ends it earlier, and so may the time.
        wanted = sum(unit.pages for unit in chosen)
        wanted = wanted if reading.share is None else min(wanted, math.ceil(reading.share * total))
        done = 0
        for unit in chosen:
            # Checked before each part: reads at least the share, and at most one part more.
            if reading.share is not None and done >= reading.share * total:
                break
            if reading.seconds is not None and time.monotonic() - started >= reading.seconds:
                break
            found = 0
            for finding in self._check_unit(unit):
                found += 1
                yield finding
            done += unit.pages
            self.progress(min(done, wanted), wanted)
            self._read.append(unit)
            # Damaged parts count as never read: the next check reads them first.
            self._verified.mark_range(unit.low, unit.high, 0 if found else reading.now)
        if self.meta is not None and done == total and not self.skipped:
            # All data of one state was read: now counts and digest detect errors that no single part shows.
            for finding in self._check_totals(self.meta):
                self._verified.mark_range(0, KEY_SPACE_END, 0)
                yield finding

    def _choose_units(self) -> list[Unit]:
        """Return the parts in reading order."""
        reading = self._reading
        if reading.part is not None:
            number, parts = reading.part
            return self._units[number - 1 :: parts]
        # Without a share or a time only the structure is checked, which the coverage reports.
        if reading.share is None and reading.seconds is None:
            return []
        return sorted(self._units, key=lambda unit: (self._verified.find_oldest_time(unit.low, unit.high), unit.low))

    def _check_unit(self, unit: Unit) -> Iterator[Finding]:
        self.note(f"the records from key {unit.low} on")
        low = unit.low.to_bytes(8, "big")
        high = unit.high.to_bytes(9, "big")[1:] if unit.high < 1 << 64 else b""
        yield from self._check_key_range("records", self.databases.records, self._with_lifetimes, low, high)
        yield from self._check_key_range("history", self.databases.history, self._check_history, low, high)

    def _check_key_range(
        self,
        name: str,
        database: Any,
        look: Callable[[list[bytes], list[bytes]], Iterator[Finding]],
        low: bytes,
        high: bytes,
    ) -> Iterator[Finding]:
        last = b""
        try:
            cursor = self.txn.cursor(database)
            there = cursor.set_range(low)
            # A wrong key in a branch leads a search past entries, which are then before the entry found.
            if (cursor.prev() if there else cursor.last()) and cursor.key() >= low:
                yield self._build_finding("SOW-STO-003", f"keys after {_format_range_key(low)} cannot be found", name)
            pairs = cursor.iternext() if cursor.set_range(low) else iter(())
            ended = False
            while not ended and (chunk := self._take_chunk(pairs)):
                within = [(key, value) for key, value in chunk if not high or key < high]
                ended = len(within) < len(chunk)
                if not within:
                    return
                keys, values = [key for key, _ in within], [value for _, value in within]
                if last >= keys[0] or keys != sorted(set(keys)) or keys[0] < low:
                    yield self._build_finding(
                        "SOW-STO-003", f"keys out of order after {_format_range_key(last or low)}", name
                    )
                    return
                # A cursor passes a wrong key in a branch page; a search would go wrong.
                self.txn.verify_places(keys, database)
                self.bytes_read += sum(map(len, keys)) + sum(map(len, values))
                yield from look(keys, values)
                last = keys[-1]
        except (lmdb.Error, DamageError) as problem:
            yield from self._damaged_page(problem, f", after {_format_range_key(last or low)}", name)

    def _with_lifetimes(self, keys: list[bytes], values: list[bytes]) -> Iterator[Finding]:
        yield from self._check_records(keys, values)
        sound = [
            (key, value) for key, value in zip(keys, values, strict=True) if len(value) >= codec.VALUE_OVERHEAD_BYTES
        ]
        entries = sorted(build_expiry_entries([key for key, _ in sound], [value for _, value in sound]))
        there = dict(self.txn.cursor(self.databases.expiry).getmulti(entries))
        if any(there.get(entry) != encode_expiry_value(entry) for entry in entries):
            yield self._build_finding("SOW-STO-052", "the expiry index misses an entry of these records", "expiry")

    def build_coverage(self) -> StoreCoverage:
        """Build the coverage of this and earlier checks."""
        total = sum(unit.pages for unit in self._units)
        times = [(self._verified.find_oldest_time(unit.low, unit.high), unit.pages) for unit in self._units]
        known = [when for when, _ in times if when]
        done = sum(unit.pages for unit in self._read)
        return replace(
            super().build_coverage(),
            expiry_entries=0,
            pages=self._pages,
            share=done / total if total else 1.0,
            never=sum(pages for when, pages in times if not when) / total if total else 0.0,
            oldest=min(known, default=0),
            record=tuple(self._verified.marks) if self._read else (),
        )


def _format_range_key(key: bytes) -> str:
    return str(int.from_bytes(extract_sow_key(key).ljust(8, b"\0"), "big"))


def examine_part(
    path: str,
    no_lock: bool,
    note: Callable[[str], None],
    reading: CheckScope,
    progress: ProgressCallback = ignore_progress,
) -> Iterator[Finding | StoreCoverage]:
    """Yield the findings of a part of the store at ``path``, and finally the coverage. ``progress`` receives the number
    of data pages read and their total."""
    return examine_store(
        path, no_lock, note, lambda handle, txn: PartialExamination(handle, txn, note, reading), progress
    )


def main(path: str, wanted: str, locks: str = "") -> None:
    """The child process; ``wanted`` is a :class:`CheckScope` as JSON."""
    values = json.loads(wanted)
    part = values.pop("part")
    reading = CheckScope(**values, part=tuple(part) if part is not None else None)
    try:
        write_findings(lambda note, progress: examine_part(path, locks == "no-lock", note, reading, progress))
    except SowError as error:
        raise SystemExit(f"{error.code}: {error.message}") from error


__all__ = ["PartialExamination", "examine_part", "main"]

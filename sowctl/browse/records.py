"""The records of a topic: read as the cursor moves, with a filter that counts matches while it is typed, and an
order."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.timer import Timer
from textual.widgets import DataTable, Footer, Header, Input, Label, Static

from sowctl.browse import instance_reader
from sowctl.browse.instance_reader import PAGE_RECORDS, BrowsedRecord, InstanceReader, PageRequest, Stop
from sowctl.browse.record_detail import RecordDetailPage
from sowctl.browse.screen import BrowserScreen, fill_table, format_error
from sowctl.errors import SowError

FILTER_DELAY_SECONDS = 0.2
"""Seconds after the last key until a filter is applied."""
PREFETCH_ROWS = 10
"""Distance between the cursor and the end of the read records, in rows, below which more are read."""
_NUMBER_PATTERN = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


class TableLimits(Struct):
    """Limits of a table of records; tests set smaller ones."""

    max_rows: int = 10 * PAGE_RECORDS
    """Maximum number of records; those far from the cursor are removed from the table, and read again when needed."""


TABLE_LIMITS = TableLimits()


class RecordsPage(BrowserScreen):
    """The records of one topic."""

    BINDINGS: ClassVar = [
        ("slash", "filter", "Filter"),
        ("o", "order", "Order"),
        ("s", "sort", "Sort by column"),
        ("r", "refresh", "Refresh"),
        ("escape", "back", "Back"),
    ]
    KEYS: ClassVar = (
        ("/", "edit the filter; it is applied while you type, Enter goes to the records"),
        ("o", "edit the sort order, such as /price DESC, /id"),
        ("s", "sort by the column under the cursor: ascending, descending, not at all"),
    )
    MORE_HELP: ClassVar = """Filters, such as:
  /symbol = 'IBM' AND /qty > 500
  /name LIKE '^Be'           a regular expression
  /status IN ('new', 'filled')
  /address/city IS NULL
All of the language: sowctl man expressions; functions: sowctl functions"""

    def __init__(self, reader: InstanceReader, target: str, topic: str) -> None:
        super().__init__(reader)
        self._topic = topic
        self._wanted = PageRequest(target)
        self._records: list[BrowsedRecord] = []
        self._headings: list[str] = []
        self._fields: list[str] = []
        self._first = 0
        self._more = False
        self._reads = False
        self._unknown: tuple[str, ...] = ()
        self._matching = ""
        self._typed: Timer | None = None

    def compose(self) -> ComposeResult:
        """Title, the lines for filter and order, their errors, table, status line, keys."""
        yield Header(icon="")
        with Horizontal(classes="line"):
            yield Label("filter ")
            yield Input(id="filter", placeholder="for example /price > 100", compact=True, select_on_focus=False)
        with Horizontal(classes="line"):
            yield Label("order  ")
            yield Input(id="order", placeholder="for example /price DESC", compact=True, select_on_focus=False)
        yield Static(id="wrong", markup=False)
        yield DataTable[Any](cursor_type="cell", zebra_stripes=True)
        yield Static(id="said", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Start reading."""
        self.sub_title = self._topic
        self.query_one("#wrong").display = False
        self.set_focus(self.query_one(DataTable))
        self._ask_records(count=True)

    def _ask_records(self, *, count: bool) -> None:
        """Read the first records; with ``count`` also the number of matches."""
        wanted = self._wanted
        self.show_line("reading ...")
        self._reads = True
        self.run_question(
            "page", lambda stop: self.reader.read_page(wanted, stop), self._show_page, self._show_filter_error
        )
        if count:
            self._matching = ""
            self.run_question("count", lambda stop: self._count_matches(wanted, stop), self._show_count, lambda _: None)

    def _ask_more(self, first: int) -> None:
        """Read the page that begins with record number ``first``, after or before the present records."""
        self._reads = True
        wanted = replace(self._wanted, first=first)
        self.run_question(
            "page",
            lambda stop: self.reader.read_page(wanted, stop),
            lambda page: self._join_page(first, page),
            self._show_filter_error,
        )

    def _count_matches(self, wanted: PageRequest, stop: Stop) -> str:
        def told(total: int) -> None:
            # Every batch has a thousand records; an update for each hundred of them would be too frequent.
            if total % 20_000 < 1000:
                self.send_to_screen(stop, self._show_count, f"more than {total:,}")

        return f"{self.reader.count_records(wanted, stop, told):,}"

    def _show_count(self, text: str) -> None:
        self._matching = text
        self._show_position()

    def _show_page(self, page: instance_reader.PageOfRecords) -> None:
        self.query_one("#wrong").display = False
        self._reads = False
        self._first, self._records, self._more, self._unknown = 0, page.records, page.more, page.unknown
        # If nothing matches, the columns stay those of the previous page.
        if page.records:
            self._headings, self._fields = page.headings, page.fields
        self._fill_table()

    def _join_page(self, first: int, page: instance_reader.PageOfRecords) -> None:
        """Add a page after or before the records; surplus records are removed at the other end."""
        self._reads = False
        table = self.query_one(DataTable)
        behind = first > self._first
        added = self._widen_page(page)
        if behind:
            self._records = [*self._records, *added]
            self._more = page.more
        else:
            self._records = [*added, *self._records]
        surplus = max(0, len(self._records) - TABLE_LIMITS.max_rows)
        dropped = surplus if behind else 0
        if behind:
            del self._records[:surplus]
        elif surplus:
            del self._records[-surplus:]
            self._more = True
        moved = -dropped if behind else len(added)
        self._first = self._first + dropped if behind else first
        row, top = table.cursor_row + moved, table.scroll_offset.y + moved
        self._fill_table(row, top)

    def _widen_page(self, page: instance_reader.PageOfRecords) -> list[BrowsedRecord]:
        """The records of a page with the shown columns, to which columns that only this page has are added."""
        if page.headings == self._headings:
            return page.records
        known = list(zip(self._headings, self._fields, strict=True))
        fresh = [pair for pair in zip(page.headings, page.fields, strict=True) if pair not in known]
        fresh = fresh[: max(0, instance_reader.MAX_COLUMNS - len(known))]
        self._headings += [heading for heading, _ in fresh]
        self._fields += [field for _, field in fresh]
        self._records = [replace(one, cells=[*one.cells, *[""] * len(fresh)]) for one in self._records]
        places = {field: at for at, field in enumerate(page.fields)}
        return [
            replace(one, cells=[one.cells[places[field]] if field in places else "" for field in self._fields])
            for one in page.records
        ]

    def _fill_table(self, row: int | None = None, top: int | None = None) -> None:
        """Show the records; the cursor moves to ``row``, and ``top`` becomes the first visible row."""
        table = self.query_one(DataTable)
        cells = [record.cells for record in self._records]
        marks = {f"{field}{end}": mark for field in self._fields for end, mark in (("", " ▲"), (" DESC", " ▼"))}
        sorted_by = marks.get(self._wanted.order.strip(), "")
        path = self._wanted.order.strip().removesuffix(" DESC")
        headings = [
            heading + (sorted_by if field == path else "")
            for heading, field in zip(self._headings, self._fields, strict=True)
        ]
        right = [name for at, name in enumerate(headings) if _are_numbers([one[at] for one in cells])]
        fill_table(table, headings, cells, right)
        if row is not None and top is not None:
            table.move_cursor(row=row, column=table.cursor_column, scroll=False)
            table.scroll_to(y=top, animate=False, force=True)
        self._show_position()

    def _show_position(self) -> None:
        if not self._records:
            self.show_line("; ".join(("no record matches", *self._unknown)))
            return
        total = f" of {self._matching}" if self._matching else ""
        at = self._first + min(self.query_one(DataTable).cursor_row, len(self._records) - 1)
        self.show_line("; ".join((f"record {at + 1:,}{total}; Enter shows it", *self._unknown)))

    def on_data_table_cell_highlighted(self) -> None:
        """Show the position of the moved cursor, and read more near the end of the read records."""
        if self._reads or not self._records:
            return
        self._show_position()
        row = self.query_one(DataTable).cursor_row
        if self._more and row >= len(self._records) - PREFETCH_ROWS:
            self._ask_more(self._first + len(self._records))
        elif self._first and row < PREFETCH_ROWS:
            self._ask_more(max(0, self._first - PAGE_RECORDS))

    def _show_filter_error(self, error: SowError) -> None:
        """Show an error below the filter; the records of the last valid filter stay."""
        self._reads = False
        wrong = self.query_one("#wrong", Static)
        wrong.update(Text(format_error(error)))
        wrong.display = True
        self.show_line("")

    def on_input_changed(self) -> None:
        """A key in the filter or the order: apply it unless another key follows at once."""
        if self._typed is not None:
            self._typed.stop()
        self._typed = self.set_timer(FILTER_DELAY_SECONDS, self._apply_input)

    def _apply_input(self) -> None:
        text, order = self.query_one("#filter", Input).value, self.query_one("#order", Input).value
        if (text, order) != (self._wanted.filter, self._wanted.order):
            other = text != self._wanted.filter
            self._wanted = replace(self._wanted, filter=text, order=order, first=0)
            self._ask_records(count=other)

    def on_input_submitted(self) -> None:
        """Enter: move to the records."""
        self.set_focus(self.query_one(DataTable))

    def on_data_table_cell_selected(self) -> None:
        """Enter on a record: show all of it."""
        at = self.query_one(DataTable).cursor_row
        if at < len(self._records):
            self.app.push_screen(RecordDetailPage(self.reader, self._wanted.target, self._topic, self._records[at]))

    def action_filter(self) -> None:
        """Edit the filter."""
        # Immediately: with focus(), the following keys would be taken for those of the table.
        self.set_focus(self.query_one("#filter"))

    def action_order(self) -> None:
        """Edit the order."""
        self.set_focus(self.query_one("#order"))

    def action_sort(self) -> None:
        """Sort by the column under the cursor: ascending, descending, not at all."""
        table = self.query_one(DataTable)
        if table.cursor_column >= len(self._fields):
            return
        path = self._fields[table.cursor_column]
        orders = (path, f"{path} DESC", "")
        now = self._wanted.order
        line = self.query_one("#order", Input)
        line.value = orders[(orders.index(now) + 1) % 3] if now in orders else path
        self._apply_input()

    def action_jump(self, row: int) -> None:
        """Move to the first record, which may have to be read again, or to the last one that has been read."""
        if row == 0 and self._first:
            self.query_one(DataTable).move_cursor(row=0)
            self._ask_records(count=False)
        else:
            super().action_jump(row)

    def action_refresh(self) -> None:
        """Read the records again, from the first one."""
        self._ask_records(count=True)

    def action_back(self) -> None:
        """Return from a line to the records, from the records to the topics."""
        if isinstance(self.focused, Input):
            self.set_focus(self.query_one(DataTable))
        else:
            self.app.pop_screen()


def _are_numbers(texts: list[str]) -> bool:
    present = [text for text in texts if text]
    return bool(present) and all(map(_NUMBER_PATTERN.fullmatch, present))

"""The records of a topic: a page of them, a filter that counts while it is typed, an order."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec.structs import replace
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.timer import Timer
from textual.widgets import DataTable, Footer, Header, Input, Label, Static

from sowctl.browse import reading
from sowctl.browse.reading import PAGE, BrowsedRecord, InstanceReader, PageRequest, Stop
from sowctl.browse.record import RecordPage
from sowctl.browse.screen import BrowserScreen, error_text, fill
from sowctl.errors import SowError

PAUSE = 0.2
"""Seconds without a key after which a filter is asked."""


class RecordsPage(BrowserScreen):
    """The records of one topic."""

    BINDINGS: ClassVar = [
        ("slash", "filter", "Filter"),
        ("o", "order", "Order"),
        ("s", "sort", "Sort by column"),
        ("n", "next", "Next page"),
        ("p", "previous", "Previous"),
        ("g", "begin", "First page"),
        ("r", "refresh", "Refresh"),
        ("escape", "back", "Back"),
    ]

    def __init__(self, reader: InstanceReader, target: str, topic: str) -> None:
        super().__init__(reader)
        self._topic = topic
        self._wanted = PageRequest(target)
        self._records: list[BrowsedRecord] = []
        self._headings: list[str] = []
        self._fields: list[str] = []
        self._more = False
        self._unknown: tuple[str, ...] = ()
        self._matching = ""
        self._typed: Timer | None = None

    def compose(self) -> ComposeResult:
        """Title, the lines for filter and order, what is wrong with them, table, what is going on, keys."""
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
        """Begin reading."""
        self.sub_title = self._topic
        self.query_one("#wrong").display = False
        self.set_focus(self.query_one(DataTable))
        self._ask(count=True)

    def _ask(self, *, count: bool) -> None:
        """Read the page that is wanted; with ``count`` also how many match."""
        wanted = self._wanted
        self.say("reading ...")
        self.ask("page", lambda stop: self.reader.page(wanted, stop), self._show, self._wrong)
        if count:
            self._matching = ""
            self.ask("count", lambda stop: self._count(wanted, stop), self._counted, lambda _: None)

    def _count(self, wanted: PageRequest, stop: Stop) -> str:
        def told(total: int) -> None:
            # Every batch has a thousand records; a line for each hundred of them would be more than anyone reads.
            if total % 20_000 < 1000:
                self.tell(stop, self._counted, f"more than {total:,}")

        return f"{self.reader.count(wanted, stop, told):,}"

    def _counted(self, text: str) -> None:
        self._matching = text
        self._say_place()

    def _show(self, page: reading.PageOfRecords) -> None:
        self.query_one("#wrong").display = False
        self._records, self._more, self._unknown = page.records, page.more, page.unknown
        # Where nothing matches, the columns stay those of the page before.
        if page.records:
            self._headings, self._fields = page.headings, page.fields
        fill(self.query_one(DataTable), self._headings, [record.cells for record in page.records])
        self._say_place()

    def _say_place(self) -> None:
        first = self._wanted.first
        if not self._records:
            self.say("; ".join(("no record matches" if not first else "no further records", *self._unknown)))
            return
        total = f" of {self._matching}" if self._matching else ""
        place = f"records {first + 1:,} to {first + len(self._records):,}{total}; Enter shows one"
        self.say("; ".join((place, *self._unknown)))

    def _wrong(self, error: SowError) -> None:
        """Show an error beneath the filter; the records of the last filter that could be read stay."""
        wrong = self.query_one("#wrong", Static)
        wrong.update(Text(error_text(error)))
        wrong.display = True
        self.say("")

    def on_input_changed(self) -> None:
        """A key in the filter or the order: ask when no other one follows at once."""
        if self._typed is not None:
            self._typed.stop()
        self._typed = self.set_timer(PAUSE, self._typed_out)

    def _typed_out(self) -> None:
        text, order = self.query_one("#filter", Input).value, self.query_one("#order", Input).value
        if (text, order) != (self._wanted.filter, self._wanted.order):
            other = text != self._wanted.filter
            self._wanted = replace(self._wanted, filter=text, order=order, first=0)
            self._ask(count=other)

    def on_input_submitted(self) -> None:
        """Enter: to the records."""
        self.set_focus(self.query_one(DataTable))

    def on_data_table_cell_selected(self) -> None:
        """Enter on a record: all of it."""
        at = self.query_one(DataTable).cursor_row
        if at < len(self._records):
            self.app.push_screen(RecordPage(self.reader, self._wanted.target, self._topic, self._records[at]))

    def action_filter(self) -> None:
        """Write a filter."""
        # At once: focus() would let keys that follow be taken for those of the table.
        self.set_focus(self.query_one("#filter"))

    def action_order(self) -> None:
        """Write an order."""
        self.set_focus(self.query_one("#order"))

    def action_sort(self) -> None:
        """Order by the column under the cursor: ascending, descending, not at all."""
        table = self.query_one(DataTable)
        if table.cursor_column >= len(self._fields):
            return
        path = self._fields[table.cursor_column]
        orders = (path, f"{path} DESC", "")
        now = self._wanted.order
        line = self.query_one("#order", Input)
        line.value = orders[(orders.index(now) + 1) % 3] if now in orders else path
        self._typed_out()

    def action_next(self) -> None:
        """The next page."""
        if self._more:
            self._turn(self._wanted.first + PAGE)

    def action_previous(self) -> None:
        """The page before."""
        if self._wanted.first:
            self._turn(max(0, self._wanted.first - PAGE))

    def action_begin(self) -> None:
        """The first page."""
        self._turn(0)

    def _turn(self, first: int) -> None:
        self._wanted = replace(self._wanted, first=first)
        self.query_one(DataTable).move_cursor(row=0)
        self._ask(count=False)

    def action_refresh(self) -> None:
        """Read the page again."""
        self._ask(count=True)

    def action_back(self) -> None:
        """From a line to the records, from the records to the topics."""
        if isinstance(self.focused, Input):
            self.set_focus(self.query_one(DataTable))
        else:
            self.app.pop_screen()

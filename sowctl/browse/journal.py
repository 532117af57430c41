"""The end of the journal, followed."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.widgets import DataTable

from sowctl.browse.instance_reader import ENTRY_COLUMNS, InstanceReader, Stop
from sowctl.browse.screen import BrowserScreen
from sowctl.values.display import format_count

INITIAL_ENTRIES = 100
"""Number of entries to show at the beginning."""
MAX_ENTRIES = 1000
"""Maximum number of entries; older ones are removed from the table."""


class JournalPage(BrowserScreen):
    """The journal, followed."""

    BINDINGS: ClassVar = [("f", "follow", "Follow/hold"), ("escape", "app.pop_screen", "Back")]
    KEYS: ClassVar = (("f", "let the cursor follow new entries, or stay"),)

    def __init__(self, reader: InstanceReader) -> None:
        super().__init__(reader)
        self._follows = True
        self._count = 0

    def on_mount(self) -> None:
        """Start following."""
        self.sub_title = "journal"
        table = self.query_one(DataTable)
        for heading in ENTRY_COLUMNS:
            table.add_column(Text(heading))
        table.focus()
        self.show_line("reading ...")
        self.run_question("journal", self._follow_journal, lambda _: None, self.show_error)

    def _follow_journal(self, stop: Stop) -> None:
        for rows in self.reader.follow_entries((), INITIAL_ENTRIES, stop):
            self.send_to_screen(stop, self._add_rows, rows)

    def _add_rows(self, rows: list[tuple[str, ...]]) -> None:
        table = self.query_one(DataTable)
        # Of a large group only the last ones would be kept.
        for cells in rows[-MAX_ENTRIES:]:
            table.add_row(*map(Text, cells))
        for key in list(table.rows)[: max(0, table.row_count - MAX_ENTRIES)]:
            table.remove_row(key)
        self._count += len(rows)
        if self._follows:
            table.move_cursor(row=table.row_count - 1)
        self._show_status()

    def _show_status(self) -> None:
        state = "following" if self._follows else "paused: f follows"
        self.show_line(f"{format_count(self._count, 'entry', 'entries')}, {state}")

    def action_follow(self) -> None:
        """Switch whether the cursor follows new entries."""
        self._follows = not self._follows
        if self._follows:
            table = self.query_one(DataTable)
            table.move_cursor(row=table.row_count - 1)
        self._show_status()

"""The first screen: all topics, views and queues."""

from __future__ import annotations

from typing import ClassVar

from textual.widgets import DataTable

from sowctl.browse.instance_reader import TOPIC_COLUMNS, InstanceReader, TopicRow
from sowctl.browse.journal import JournalPage
from sowctl.browse.queues import QueueDetailPage, QueuesPage
from sowctl.browse.records import RecordsPage
from sowctl.browse.screen import BrowserScreen, fill_table
from sowctl.values.display import format_count


class TopicsPage(BrowserScreen):
    """The topics, views, conflated topics and queues of the instance."""

    BINDINGS: ClassVar = [
        ("J", "journal", "Journal"),
        ("u", "queues", "Queues"),
        ("r", "refresh", "Refresh"),
        ("q", "app.quit", "Quit"),
    ]
    KEYS: ClassVar = (("J", "follow the journal"), ("u", "list the queues and their messages by states"))

    def __init__(self, reader: InstanceReader) -> None:
        super().__init__(reader)
        self._rows: list[TopicRow] = []

    def on_mount(self) -> None:
        """Start reading."""
        self.sub_title = "topics"
        self.query_one(DataTable).focus()
        self.action_refresh()

    def action_refresh(self) -> None:
        """Read the list again."""
        self.show_line("reading ...")
        self.run_question("topics", lambda _: self.reader.list_topics(), self._show_topics, self.show_error)

    def _show_topics(self, rows: list[TopicRow]) -> None:
        self._rows = rows
        fill_table(self.query_one(DataTable), TOPIC_COLUMNS, [row.cells for row in rows], ("records", "size"))
        self.show_line(f"{format_count(len(rows), 'topic')}; Enter shows records")

    def on_data_table_row_selected(self) -> None:
        """Enter on a row: open it."""
        self.action_open()

    def action_open(self) -> None:
        """Show the records of the topic under the cursor."""
        at = self.query_one(DataTable).cursor_row
        if at >= len(self._rows):
            return
        row = self._rows[at]
        if row.target is None:
            self.show_line("the topic has no records; J shows its journal")
        elif row.is_queue:
            self.app.push_screen(QueueDetailPage(self.reader, row.cells[0], row.cells[1]))
        else:
            self.app.push_screen(RecordsPage(self.reader, row.target, row.cells[0]))

    def action_queues(self) -> None:
        """List the queues."""
        self.app.push_screen(QueuesPage(self.reader))

    def action_journal(self) -> None:
        """Follow the journal."""
        self.app.push_screen(JournalPage(self.reader))

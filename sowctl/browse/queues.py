"""The queues, the messages of one of them by their states, and one message. Nothing is leased."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Header, Static

from sowctl.browse.instance_reader import (
    MESSAGE_COLUMNS,
    PAGE_RECORDS,
    QUEUE_COLUMNS,
    QUEUE_STATES,
    InstanceReader,
    QueueMessages,
    QueueRow,
    WaitingMessage,
    format_message,
)
from sowctl.browse.screen import BrowserScreen, fill_table
from sowctl.values.display import format_count

PREFETCH_ROWS = 10
"""Distance from the last row, in rows, below which further messages are read."""


class QueuesPage(BrowserScreen):
    """All queues with their messages by state."""

    BINDINGS: ClassVar = [("r", "refresh", "Refresh"), ("escape", "app.pop_screen", "Back")]

    def __init__(self, reader: InstanceReader) -> None:
        super().__init__(reader)
        self._rows: list[QueueRow] = []

    def on_mount(self) -> None:
        """Start reading."""
        self.sub_title = "queues"
        self.query_one(DataTable).focus()
        self.action_refresh()

    def action_refresh(self) -> None:
        """Read the list again."""
        self.show_line("reading ...")
        self.run_question("queues", lambda _: self.reader.list_queues(), self._show_queues, self.show_error)

    def _show_queues(self, rows: list[QueueRow]) -> None:
        self._rows = rows
        fill_table(self.query_one(DataTable), QUEUE_COLUMNS, [row.cells for row in rows], QUEUE_COLUMNS[2:])
        count = format_count(len(rows), "queue")
        self.show_line(f"{count}; Enter shows messages" if rows else "the configuration has no queues")

    def on_data_table_row_selected(self) -> None:
        """Enter on a queue: show its messages."""
        at = self.query_one(DataTable).cursor_row
        if at < len(self._rows):
            self.app.push_screen(QueueDetailPage(self.reader, self._rows[at].name, self._rows[at].message_type))


class QueueDetailPage(BrowserScreen):
    """The messages of a queue in delivery order."""

    BINDINGS: ClassVar = [
        ("s", "state", "State"),
        ("r", "refresh", "Refresh"),
        ("escape", "app.pop_screen", "Back"),
    ]
    KEYS: ClassVar = (("s", "show one state after the other: ready, leased, delayed, blocked, dead, all"),)
    MORE_HELP: ClassVar = "Messages are only looked at. See sowctl man queue peek, sowctl man queue requeue."

    def __init__(self, reader: InstanceReader, name: str, message_type: str) -> None:
        super().__init__(reader)
        self._queue, self._message_type = name, message_type
        self._state = ""
        self._count = PAGE_RECORDS
        self._shown: QueueMessages | None = None

    def on_mount(self) -> None:
        """Start reading."""
        self.sub_title = self._queue
        self.query_one(DataTable).focus()
        self.action_refresh()

    def action_refresh(self) -> None:
        """Read the messages again."""
        self.show_line("reading ...")
        name, kind, state, count = self._queue, self._message_type, self._state, self._count
        self.run_question(
            "queue",
            lambda stop: self.reader.read_queue(name, kind, state, count, stop),
            self._show_messages,
            self.show_error,
        )

    def action_state(self) -> None:
        """Show messages of the next state."""
        self._state = QUEUE_STATES[(QUEUE_STATES.index(self._state) + 1) % len(QUEUE_STATES)]
        self._count = PAGE_RECORDS
        self.query_one(DataTable).move_cursor(row=0)
        self.action_refresh()

    def _show_messages(self, shown: QueueMessages) -> None:
        self._shown = shown
        # Holder and reason are empty for most messages: without these columns there is more room for the message.
        kept = [at for at in range(len(MESSAGE_COLUMNS)) if any(one.cells[at] for one in shown.messages)]
        cells = [[one.cells[at] for at in kept] for one in shown.messages]
        fill_table(self.query_one(DataTable), [MESSAGE_COLUMNS[at] for at in kept], cells, ("deliveries",))
        chosen = f"{self._state} messages" if self._state else "all messages"
        self.show_line(f"{shown.counts}; shown: {chosen}" + ("" if shown.messages else ", there are none"))

    def on_data_table_row_highlighted(self) -> None:
        """Read more near the end."""
        shown = self._shown
        if (
            shown is None
            or not shown.more
            or self.query_one(DataTable).cursor_row < len(shown.messages) - PREFETCH_ROWS
        ):
            return
        self._count = len(shown.messages) + PAGE_RECORDS
        # Not again until these have arrived.
        self._shown = None
        self.action_refresh()

    def on_data_table_row_selected(self) -> None:
        """Enter on a message: show all of it."""
        at = self.query_one(DataTable).cursor_row
        if self._shown is not None and at < len(self._shown.messages):
            self.app.push_screen(MessagePage(self.reader, self._queue, self._shown.messages[at]))


class MessagePage(BrowserScreen):
    """One message of a queue."""

    BINDINGS: ClassVar = [("escape", "app.pop_screen", "Back")]

    def __init__(self, reader: InstanceReader, queue: str, message: WaitingMessage) -> None:
        super().__init__(reader)
        self._queue, self._message = queue, message

    def compose(self) -> ComposeResult:
        """Title, the message and its metadata, keys."""
        text = Text(format_message(self._message.view))
        facts = "\n".join(f"{name}: {value}" for name, value in self._message.facts)
        text.append(f"\n\n{facts}", style="dim")
        yield Header(icon="")
        with VerticalScroll(id="message"):
            yield Static(text, markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Let keys scroll."""
        self.sub_title = f"{self._queue} {dict(self._message.facts)['bookmark']}"
        self.query_one("#message").focus()

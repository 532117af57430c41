"""One record: its message, its versions, and the changes of each."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import DataTable, Footer, Header, Static

from sowctl.browse.instance_reader import VERSION_COLUMNS, BrowsedRecord, InstanceReader, VersionRow, format_message
from sowctl.browse.screen import BrowserScreen, fill_table
from sowctl.errors import SowError

_COLORS = {"~": "yellow", "+": "green", "-": "red"}
NARROW_COLUMNS = 100
"""Width of a terminal in columns below which the message is above the versions instead of beside them."""


class RecordDetailPage(BrowserScreen):
    """One record with its history."""

    BINDINGS: ClassVar = [
        ("r", "refresh", "Refresh"),
        ("tab", "app.focus_next", "Message/versions"),
        ("escape", "back", "Back"),
    ]
    KEYS: ClassVar = (("Tab", "from the versions to the message, and back"),)
    MORE_HELP: ClassVar = (
        "Changes: ~ changed, + added, - removed. The version under the cursor is the one that is shown."
    )

    def __init__(self, reader: InstanceReader, target: str, topic: str, record: BrowsedRecord) -> None:
        super().__init__(reader)
        self._target = target
        self._topic = topic
        self._record = record
        self._versions: list[VersionRow] = []

    def compose(self) -> ComposeResult:
        """Title, the message, its versions and their changes, status line, keys."""
        yield Header(icon="")
        with Horizontal(id="halves"):
            with VerticalScroll(id="message"):
                yield Static(id="text", markup=False)
            with Vertical(id="history"):
                yield DataTable[Any](cursor_type="row", zebra_stripes=True)
                with VerticalScroll(id="changes"):
                    yield Static(id="changed", markup=False)
        yield Static(id="said", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Show the record, and start reading its versions."""
        self.sub_title = f"{self._topic} {self._record.name}"
        facts = "\n".join(f"{name}: {value}" for name, value in self._record.facts)
        self._write_message(format_message(self._record.view), facts)
        self.query_one(DataTable).focus()
        self.on_resize()
        self.action_refresh()

    def on_resize(self) -> None:
        """Arrange the halves side by side if there is room."""
        self.query_one("#halves").set_class(self.app.size.width < NARROW_COLUMNS, "narrow")

    def _write_message(self, message: str, facts: str) -> None:
        text = Text(message)
        text.append(f"\n\n{facts}", style="dim")
        self.query_one("#text", Static).update(text)

    def action_refresh(self) -> None:
        """Read the versions again."""
        self.show_line("reading versions ...")
        target, key = self._target, self._record.key
        self.run_question(
            "versions", lambda _: self.reader.list_versions(target, key), self._show_versions, self._show_unknown
        )

    def _show_versions(self, versions: list[VersionRow]) -> None:
        self._versions = versions
        fill_table(self.query_one(DataTable), VERSION_COLUMNS, [one.cells for one in versions])
        self.show_line(f"{len(versions)} versions, newest first" if len(versions) != 1 else "1 version")
        self.on_data_table_row_highlighted()

    def _show_unknown(self, error: SowError) -> None:
        self.show_error(error)

    def on_data_table_row_highlighted(self) -> None:
        """Show the version under the cursor and its changes."""
        at = self.query_one(DataTable).cursor_row
        if at >= len(self._versions):
            return
        version = self._versions[at]
        changes = Text()
        for change in version.changes:
            changes.append(change + "\n", style=_COLORS.get(change[0], "dim"))
        self.query_one("#changed", Static).update(changes)
        facts = "\n".join(f"{name}: {value}" for name, value in self._record.facts) if at == 0 else ""
        self._write_message("deleted" if version.view is None else format_message(version.view), facts)

    def action_back(self) -> None:
        """Return to the records."""
        self.app.pop_screen()

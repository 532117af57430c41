"""The browser as a Textual application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.app import App

from sowctl.browse.help_page import HelpPage
from sowctl.browse.instance_reader import InstanceReader
from sowctl.browse.records import RecordsPage
from sowctl.browse.screen import BrowserScreen
from sowctl.browse.topics import TopicsPage
from sowctl.output.display import escape_line

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance


class Browser(App[None]):
    """Browses an instance; ``target`` and ``topic`` are those of the records to show first, if any."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    DataTable { height: 1fr; }
    Header { height: 1; }
    .line { height: 1; }
    .line Input { width: 1fr; }
    #wrong { color: $error; height: auto; max-height: 6; }
    #said { height: auto; max-height: 6; color: $text-muted; }
    #halves { height: 1fr; }
    #message { width: 2fr; height: 1fr; }
    #help { height: 1fr; }
    #history { width: 3fr; height: 1fr; }
    #changes { height: 1fr; border-top: solid $primary; }
    #halves.narrow { layout: vertical; }
    #halves.narrow #message, #halves.narrow #history { width: 1fr; }
    """

    def __init__(self, instance: Instance, target: str | None = None, topic: str = "") -> None:
        super().__init__()
        # Notes would be written across the screen: they are shown on it for some seconds instead.
        self.reader = InstanceReader(replace(instance, notify=self._show_remark))
        self.title = "sowctl"
        self._first = target
        self._first_name = topic

    def _show_remark(self, text: str) -> None:
        """Show a note of a reading thread."""
        self.call_later(self.notify, escape_line(text), markup=False)

    def action_help(self) -> None:
        """Show the keys of the screen."""
        if isinstance(self.screen, BrowserScreen):
            self.push_screen(HelpPage(self.reader, self.screen.KEYS, self.screen.MORE_HELP))

    def on_mount(self) -> None:
        """Show the topics, and the records of the given one."""
        self.push_screen(TopicsPage(self.reader))
        if self._first is not None:
            self.push_screen(RecordsPage(self.reader, self._first, self._first_name))


def run_browser(instance: Instance, target: str | None, topic: str) -> int:
    """Run the browser on the terminal of this process until the user leaves it; returns its exit status."""
    browser = Browser(instance, target, topic)
    browser.run(mouse=False)
    return browser.return_code or 0

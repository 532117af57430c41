"""The keys of a screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Footer, Header, Static

from sowctl.browse.instance_reader import InstanceReader
from sowctl.browse.screen import BrowserScreen
from sowctl.output.facts import Fact, format_facts

COMMON_KEYS = (
    ("j k, arrows", "move by a line; left and right by a column"),
    ("PageDown PageUp", "move by a screen; beyond the last line more are read"),
    ("g G", "to the first line, to the last one that has been read"),
    ("Enter", "open what is under the cursor"),
    ("Escape", "back"),
    ("r", "read again"),
    ("?", "this help"),
    ("q", "quit"),
)
"""Keys of every screen."""


class HelpPage(BrowserScreen):
    """The page of the keys of a screen."""

    BINDINGS: ClassVar = [
        ("escape", "app.pop_screen", "Back"),
        Binding("question_mark", "app.pop_screen", "Back", show=False),
    ]

    def __init__(self, reader: InstanceReader, keys: Sequence[tuple[str, str]], more: str) -> None:
        super().__init__(reader)
        self._keys, self._more = keys, more

    def compose(self) -> ComposeResult:
        """Title, keys and their effects, keys of this screen."""
        yield Header(icon="")
        with VerticalScroll(id="help"):
            yield Static(id="keys", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Let keys scroll."""
        self.sub_title = "help"
        self.query_one("#help").focus()
        self.on_resize()

    def on_resize(self) -> None:
        """Lay out the lines for the current width."""
        facts = [Fact(key, words) for key, words in (*self._keys, *COMMON_KEYS)]
        # Two columns are for the scroll bar.
        lines = [*format_facts(facts, self.app.size.width - 2), "", self._more]
        self.query_one("#keys", Static).update(Text("\n".join(lines)))

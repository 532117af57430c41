"""Base of all screens: a table, a status line, and reading in threads.

A question runs in a worker thread of Textual, so that keys are handled meanwhile. A new question cancels the previous
one of its group: it stops at its next batch, and its answer is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Header, Static
from textual.worker import get_current_worker

from sowctl.browse.instance_reader import Stop, Stopped
from sowctl.errors import SowError
from sowctl.output.display import escape_line, escape_lines, measure_width

if TYPE_CHECKING:
    from sowctl.browse.instance_reader import InstanceReader

T = TypeVar("T")


class BrowserScreen(Screen[None]):
    """A screen of the browser. ``reader`` reads the instance."""

    # On every screen. The line of keys shows help first: if it is too narrow, its end is cut.
    BINDINGS: ClassVar = [
        ("question_mark", "app.help", "Help"),
        Binding("j", "scroll('down')", "Down", show=False),
        Binding("k", "scroll('up')", "Up", show=False),
        Binding("g", "jump(0)", "First line", show=False),
        Binding("G", "jump(-1)", "Last line", show=False),
        Binding("q", "app.quit", "Quit", show=False),
    ]
    KEYS: ClassVar[Sequence[tuple[str, str]]] = ()
    """The keys of this screen only, and their effects."""
    MORE_HELP: ClassVar[str] = ""
    """Additional text of the help."""

    def __init__(self, reader: InstanceReader) -> None:
        super().__init__()
        self.reader = reader

    def compose(self) -> ComposeResult:
        """Title, table, status line, keys; screens with other contents override this."""
        yield Header(icon="")
        yield DataTable[Any](cursor_type="row", zebra_stripes=True)
        yield Static(id="said", markup=False)
        yield Footer(show_command_palette=False)

    def run_question(
        self, group: str, question: Callable[[Stop], T], answer: Callable[[T], None], failed: Callable[[SowError], None]
    ) -> None:
        """Ask in a thread of this ``group``; then call ``answer`` or ``failed`` in the terminal's thread."""

        def work() -> None:
            worker = get_current_worker()

            def stop() -> bool:
                return worker.is_cancelled

            try:
                found = question(stop)
            except Stopped:
                return
            except SowError as error:
                self.send_to_screen(stop, failed, error)
                return
            self.send_to_screen(stop, answer, found)

        # A thread cannot be stopped from outside: ``exclusive`` marks the previous worker as cancelled, which its
        # question checks. Any other exception ends the browser, with its traceback.
        self.run_worker(work, thread=True, exclusive=True, group=group, exit_on_error=True)

    def send_to_screen(self, stop: Stop, hear: Callable[[T], None], what: T) -> None:
        """From a worker: call ``hear`` in the terminal's thread, unless the question was cancelled."""

        def heard() -> None:
            # Checked again here: since the answer was sent, a key may have cancelled its question, or left the screen.
            if not stop() and self.is_attached:
                hear(what)

        if not stop():
            # A message, which any thread may send. call_from_thread would wait until it is handled, and the browser
            # waits for its workers when it ends.
            self.app.call_later(heard)

    def action_scroll(self, direction: str) -> None:
        """Move the cursor of a table, or scroll another focused widget, by a line."""
        focused = self.focused
        if isinstance(focused, DataTable):
            focused.action_cursor_down() if direction == "down" else focused.action_cursor_up()
        elif focused is not None:
            focused.scroll_relative(y=1 if direction == "down" else -1, animate=False)

    def action_jump(self, row: int) -> None:
        """Move to the first line of a table, or to its last one."""
        table = self.query(DataTable)
        if table:
            table.first().move_cursor(row=row if row >= 0 else max(0, table.first().row_count - 1))

    def show_line(self, text: str) -> None:
        """Show a line at the bottom of the screen."""
        self.query_one("#said", Static).update(Text(text))

    def show_error(self, error: SowError) -> None:
        """Show an error at the bottom of the screen."""
        self.show_line(format_error(error))


def format_error(error: SowError) -> str:
    """An error in lines: the message with its code, the excerpt that marks the place, the hint."""
    lines = [f"[{error.code}] {escape_line(error.message)}"]
    if error.excerpt:
        lines += escape_lines(error.excerpt).splitlines()
    if error.hint:
        lines.append(f"hint: {escape_line(error.hint)}")
    return "\n".join(lines)


def fill_table(
    table: DataTable[Any], headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()
) -> None:
    """Replace the rows; the cursor stays at its row if that still exists, and so does the scroll position. Texts are
    not parsed as markup."""
    row, column = table.cursor_coordinate
    seen = table.scroll_offset
    table.clear(columns=True)
    columns = [[cells[at] for cells in rows] for at in range(len(headings))]
    for heading, texts in zip(headings, columns, strict=True):
        # The width is given, because the table would otherwise measure cells only when it is idle.
        table.add_column(Text(heading), width=max(map(measure_width, [heading, *texts])))
    for cells in rows:
        table.add_row(*(_make_cell(text, heading in right) for text, heading in zip(cells, headings, strict=True)))
    if rows:
        table.move_cursor(row=min(row, len(rows) - 1), column=column, scroll=False)
        table.scroll_to(seen.x, seen.y, animate=False, force=True)


def _make_cell(text: str, right: bool) -> Text:
    return Text(text, justify="right" if right else "left")

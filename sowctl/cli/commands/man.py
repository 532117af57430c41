"""``sowctl man``: the manual."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.streams import is_terminal
from sowctl.declarations import Argument, declare_option

_MIN_SUBJECT_COLUMNS = 24
"""Minimum columns for the subject of a page in a list."""
EXAMPLES = (
    "sowctl man query",
    "sowctl man journal dump",
    "sowctl man sow-store",
    "sowctl man --list",
    "sowctl man -k bookmark",
)


class ManArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl man``."""

    page: Annotated[
        list[str] | None,
        Argument("PAGE", "Command, or a page such as sow-store. Default: sowctl(1).", complete="page"),
    ] = None
    all_pages: Annotated[bool, declare_option("--list", "-l", help="List all pages, one per line.")] = False
    keyword: Annotated[
        str | None, declare_option("--keyword", "-k", help="List the pages that contain WORD.", metavar="WORD")
    ] = None


def run(invocation: Invocation, arguments: ManArguments) -> int:
    """Show a manual page: with man(1) on a terminal, otherwise as plain text.

    --list prints the name and the subject of every page. --keyword prints the pages that contain a word: first those
    with a match in the name or subject, then those with a match in the text; the exit status is 1 if there are none.
    """
    from textwrap import shorten

    from sowctl.cli.io.output_sink import show_list
    from sowctl.cli.manual.viewer import find_page, format_page, list_pages, search_pages

    page = arguments.page
    if arguments.all_pages or arguments.keyword is not None:
        found = list_pages() if arguments.keyword is None else search_pages(arguments.keyword)
        width = max((len(page.name) for page in found), default=0)
        subjects = [page.subject for page in found]
        room = invocation.streams.measure_columns() - width - 2
        # One line per page, as long as a shortened subject is still useful.
        if is_terminal(invocation.streams.stdout) and room >= _MIN_SUBJECT_COLUMNS:
            subjects = [shorten(subject, room, placeholder=" ...") for subject in subjects]
        show_list(invocation, (f"{page.name:{width}}  {text}" for page, text in zip(found, subjects, strict=True)))
        return 0 if found else 1
    source = find_page(page or [])
    text = format_page(source, pager=is_terminal(invocation.streams.stdout), environ=invocation.environ)
    if text is not None:
        invocation.streams.painted_stdout.write(text)
    return 0

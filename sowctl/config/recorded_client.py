"""The comment with the default client to record: ``<!-- sowctl: client user@host -->``.

Anywhere in the main file; the last one counts. Words after ``because`` are for people. It is a comment, like those for
lint, because a server rejects elements that it does not know. Ruled by ``sow-config(5)``, Clients.
"""

from __future__ import annotations

import re

from sowctl.config.directives import DIRECTIVE_START_PATTERN

CLIENT_HINT = "write <!-- sowctl: client user@host -->"
_COMMENT_PATTERN = rf"<!--{DIRECTIVE_START_PATTERN}client\b(.*?)-->"


def parse_recorded_client(text: str) -> str | None:
    """The client in the comments of a file; the words user, host and program are not expanded. None for none."""
    found = None
    # Most files have no such comment and skip the search.
    if "sowctl" in text:
        for comment in re.finditer(_COMMENT_PATTERN, text, re.DOTALL):
            if find_client_fault(comment[1]) is None:
                found = _split_words(comment[1])[0]
    return found


def find_client_fault(words: str) -> str | None:
    """The reason why the words of such a comment have no effect; None if they are valid."""
    names = _split_words(words)
    if len(names) == 1:
        return None
    return f"the comment names {len(names)} clients instead of one" if names else "the comment names no client"


def _split_words(words: str) -> list[str]:
    return re.split(r"\bbecause\b", words, maxsplit=1)[0].split()

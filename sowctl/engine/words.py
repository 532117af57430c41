"""Words without which a filter cannot be true: records that lack one need not be decoded.

``/region = 'EMEA'`` is true only where some text of the message is exactly ``EMEA``: a text without a numeric reading
equals no number (``sowctl-expressions(7)``, comparison). JSON spells such a text in quotes, as it is or with escapes.

Stored values are searched whole. Their headers and checksums may look like a word, too; then a record is decoded in
vain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import compress, repeat
from operator import invert

from sowctl.expressions.nodes import Compare, Field, Literal, Logic, Node
from sowctl.values.compare import numeric_reading


def needed_words(node: Node | None) -> list[bytes]:
    """Texts that a message must hold, each by itself, for the filter to be true; in the order of the filter."""
    found: list[bytes] = []
    waiting = [node] if node is not None else []
    while waiting:
        current = waiting.pop()
        if isinstance(current, Logic) and current.operator == "AND":
            waiting.extend(reversed(current.operands))
        elif isinstance(current, Compare) and current.operator == "=":
            for field, literal in ((current.left, current.right), (current.right, current.left)):
                if isinstance(field, Field) and isinstance(literal, Literal) and _is_plain(literal.value):
                    found.append(literal.value)  # type: ignore[arg-type]
    return list(dict.fromkeys(found))


def _is_plain(value: object) -> bool:
    """Whether JSON can spell a text only by itself in quotes, or with a backslash."""
    if not isinstance(value, bytes) or not value or numeric_reading(value) is not None:
        return False
    return b'"' not in value and b"\\" not in value and min(value) >= 0x20


_COMMON = 0.75
"""Looking for words does not pay where more of the records than this share have them."""
_FEW = 50
"""Backslashes that headers and checksums of one batch may have by chance."""


class Words:
    """The words of a filter, to be looked for in stored values of JSON messages.

    ``pays``: looking for them has spared decoding so far.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._words = [b'"%b"' % text for text in texts]
        numbers = [b"u00%d" % row for row in range(2, 8)] if all(map(bytes.isascii, texts)) else [b"u"]
        self._escapes = (*numbers, b"/") if any(b"/" in text for text in texts) else tuple(numbers)
        """What follows a backslash where that spells one of their characters: only these have two spellings."""
        self._escape = re.compile(b"".join((rb"\\(?:", b"|".join(self._escapes), b")"))).search
        self._scarce = False
        self.pays = bool(texts)

    def holding(self, values: Sequence[bytes], run: bytes | None) -> Sequence[int]:
        """Places of the values that may hold all words. ``run``: bytes in which all of them stand, if there are such.

        Only an escape can spell a word otherwise: a value that has one counts.
        """
        if run is None:
            run = b"".join(values)
        escaped = self._is_escaped(run)
        # rfind is about twice as fast as find and "in".
        if self._scarce and not escaped and any(run.rfind(word) < 0 for word in self._words):
            return ()
        places: Sequence[int] = range(len(values))
        for word in self._words:
            held = values if len(places) == len(values) else [values[place] for place in places]
            found = map(bytes.rfind, held, repeat(word))
            if escaped:
                places = [p for p, at in zip(places, found, strict=True) if at >= 0 or self._escape(values[p])]
            else:
                places = list(compress(places, map(invert, found)))  # which is 0 for -1 alone
        self._scarce = not places
        self.pays = len(places) <= _COMMON * len(values)
        return places

    def _is_escaped(self, run: bytes) -> bool:
        """Whether ``_escape`` finds something; faster where backslashes are rare."""
        at = -1
        for _ in range(_FEW):
            at = run.find(b"\\", at + 1)
            if at < 0:
                return False
            if run.startswith(self._escapes, at + 1):
                return True
        return self._escape(run, at) is not None

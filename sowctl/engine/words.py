"""Words without which a filter cannot be true: records that lack one need not be decoded.

``/region = 'EMEA'`` is true only where some text of the message is exactly ``EMEA``: a text without a numeric reading
equals no number (``sowctl-expressions(7)``, comparison). JSON spells such a text in quotes, as it is or with escapes.
"""

from __future__ import annotations

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

"""Did you mean: the nearest known word, for unknown elements, enumerated values and module names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from sowctl.config.document import ElementNode


def compute_distance(left: str, right: str, limit: int = 2) -> int:
    """Return the number of insertions, deletions, replacements and swaps of neighbours between two words, at most
    ``limit + 1``."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        older, before = before, row
        row = [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            # Two letters in the wrong order are one mistake.
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        # No later distance can be within the limit.
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def find_nearest(word: str, known: Iterable[str], limit: int = 2) -> str | None:
    """The known word within ``limit`` edits of ``word``, ignoring letter case; None if there is none."""
    return None if len(word) > 80 else _find_nearest(word, tuple(known), limit)


@lru_cache(maxsize=4096)
def _find_nearest(word: str, known: tuple[str, ...], limit: int) -> str | None:
    lowered = word.lower()
    best, found = limit + 1, None
    for candidate in known:
        far = compute_distance(lowered, candidate.lower(), limit)
        # With as many edits as letters, any word would match any other.
        if far < best and far < max(len(word), 2):
            best, found = far, candidate
    return found


def find_nearest_or_longer(word: str, known: list[str]) -> str | None:
    """The nearest known word, else the only one of which this is a prefix or vice versa: ``JournalDir``,
    ``InetAddress``."""
    return None if len(word) > 80 else _find_nearest_or_longer(word, tuple(known))


@lru_cache(maxsize=4096)
def _find_nearest_or_longer(word: str, known: tuple[str, ...]) -> str | None:
    # One mistake often occurs in many places of a file: 99,000 of them took 4 s of edit distances, now none.
    close = find_nearest(word, known)
    if close is not None:
        return close
    short, words = word.lower(), [(other, other.lower()) for other in known]
    longer = [other for other, low in words if len(word) > 3 and low.startswith(short)]
    longer = longer or [other for other, low in words if len(low) > 6 and short.startswith(low)]
    # Only if exactly one is possible: a wrong suggestion is worse than none.
    return longer[0] if len(longer) == 1 else None


def has_misspelled_child(node: ElementNode, tag: str) -> bool:
    """Return True if a child is this tag misspelled or has swallowed it: another rule reports it, so it is not
    missing."""
    return any(
        find_nearest_or_longer(child.tag, [tag]) or (child.text and child.find(tag))
        for child in node.children
        if child.tag != tag
    )

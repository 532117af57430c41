"""The differences in meaning between two configurations, which ``config diff`` prints.

Order is compared only where it has a meaning; different units, synonyms and written defaults are no difference;
expressions are compared as trees. Works on :mod:`sowctl.config.items`. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from msgspec import Struct

from sowctl.config.equivalence import (
    IDENTITY_TAGS,
    ORDERED_ELEMENTS,
    SEQUENCE_ELEMENTS,
    compute_fingerprint,
    is_empty_section,
)
from sowctl.config.items import Item
from sowctl.config.show import ValueOrigin, find_origin
from sowctl.config.topic_patterns import compile_topic_search
from sowctl.errors import ConfigError
from sowctl.values.topicref import TopicRef

_ORDERED_EVENT_MODULES = frozenset({"amps-action-on-startup", "amps-action-on-shutdown"})
"""Events whose actions run in the order of the file."""


class Difference(NamedTuple):
    """``path`` names the element; texts and origins are None on the side that lacks it, texts also for sections."""

    change: Literal["added", "removed", "changed", "moved"]
    path: str
    before: str | None
    after: str | None
    before_origin: ValueOrigin | None
    after_origin: ValueOrigin | None


def find_differences(before: Item, after: Item) -> Iterator[Difference]:
    """All differences between two typed configurations, in the order of the first one."""
    yield from _compare_children(before, after, "")


def _compare_children(before: Item, after: Item, path: str) -> Iterator[Difference]:
    left, right = _group_children(before), _group_children(after)
    # In the order of the first configuration, followed by the elements of the second only.
    for tag in dict.fromkeys((*left, *right)):
        yield from _compare_siblings(left.get(tag, []), right.get(tag, []), before.tag, f"{path}/{tag}")
    if before.tag == "SOW":
        yield from _compare_precedence(before, after, path)
    if before.tag == "Actions":
        yield from _compare_event_order(before, after, path)


def _group_children(item: Item) -> dict[str, list[Item]]:
    """The children by name, without those that have no effect; the children of a sequence under one name."""
    found: dict[str, list[Item]] = {}
    for child in item.children:
        if not is_empty_section(child) and child.row.retired is None:
            # Steps of several names form one sequence, so they are not compared name by name.
            found.setdefault("step" if item.tag in SEQUENCE_ELEMENTS else child.tag, []).append(child)
    return found


def _compare_siblings(left: list[Item], right: list[Item], parent: str, path: str) -> Iterator[Difference]:
    tag = (left or right)[0].tag
    identity = IDENTITY_TAGS.get((parent, tag))
    # Where order has a meaning, siblings are compared by position.
    if parent in SEQUENCE_ELEMENTS or (parent, tag) in ORDERED_ELEMENTS:
        pairs = _pair_in_order(left, right)
    elif identity is not None:
        pairs = _pair_by_name(left, right, identity)
    # A single element needs no name or number in its path.
    elif len(left) <= 1 and len(right) <= 1:
        pairs = [(left[0] if left else None, right[0] if right else None)]
        yield from _compare_pairs(pairs, [path])
        return
    else:
        pairs = _pair_in_any_order(left, right)
    yield from _compare_pairs(pairs, _build_labels(pairs, left, right, identity, path))


def _build_labels(
    pairs: list[tuple[Item | None, Item | None]],
    left: list[Item],
    right: list[Item],
    identity: tuple[str, ...] | None,
    path: str,
) -> list[str]:
    if identity is not None:
        chosen = [a if a is not None else b for a, b in pairs]
        return [
            f"{path}[{' '.join(filter(None, _find_identity(item, identity)))}]" for item in chosen if item is not None
        ]
    # The number in the first configuration, or in the second for elements that only it has.
    numbers = {id(item): number for items in (right, left) for number, item in enumerate(items, start=1)}
    return [f"{path}[{numbers[id(a if a is not None else b)]}]" for a, b in pairs]


def _compare_pairs(pairs: Iterable[tuple[Item | None, Item | None]], paths: list[str]) -> Iterator[Difference]:
    for (a, b), path in zip(pairs, paths, strict=True):
        if a is None or b is None:
            yield _build_one_sided(a, b, path)
        elif a.children and b.children:
            yield from _compare_children(a, b, path)
        # By meaning: a different spelling of the same value is no difference.
        elif compute_fingerprint(a) != compute_fingerprint(b):
            yield Difference("changed", path, _item_text(a), _item_text(b), find_origin(a), find_origin(b))


def _build_one_sided(a: Item | None, b: Item | None, path: str) -> Difference:
    if a is not None:
        return Difference("removed", path, _item_text(a), None, find_origin(a), None)
    assert b is not None
    return Difference("added", path, None, _item_text(b), None, find_origin(b))


def _item_text(item: Item) -> str | None:
    return None if item.children or item.value is None else item.text


def _find_identity(item: Item, identity: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item.find_text(tag) for tag in identity)


def _pair_by_name(
    left: list[Item], right: list[Item], identity: tuple[str, ...]
) -> list[tuple[Item | None, Item | None]]:
    """Pairs of the same name; if a name occurs several times, equal items first, then by position."""
    names = dict.fromkeys(_find_identity(item, identity) for item in (*left, *right))
    pairs: list[tuple[Item | None, Item | None]] = []
    sides: list[dict[tuple[str, ...], list[Item]]] = [{}, {}]
    for found, items in zip(sides, (left, right), strict=True):
        for item in items:
            found.setdefault(_find_identity(item, identity), []).append(item)
    for name in names:
        pairs += _pair_in_any_order(sides[0].get(name, []), sides[1].get(name, []))
    return pairs


def _pair_in_any_order(left: list[Item], right: list[Item]) -> list[tuple[Item | None, Item | None]]:
    """Pairs of equal items, then the rest by position."""
    if len(left) == 1 and len(right) == 1:
        return [(left[0], right[0])]
    waiting: dict[Hashable, list[Item]] = {}
    for item in right:
        waiting.setdefault(compute_fingerprint(item), []).append(item)
    rest = []
    for item in left:
        equal = waiting.get(compute_fingerprint(item))
        if equal:
            # Remove one: if the left has three equal entries and the right two, one is left over.
            equal.pop(0)
        else:
            rest.append(item)
    remaining = {id(item) for items in waiting.values() for item in items}
    others = [item for item in right if id(item) in remaining]
    return _pair_padded(rest, others)


def _pair_padded(left: list[Item], right: list[Item]) -> list[tuple[Item | None, Item | None]]:
    count = max(len(left), len(right))
    a: list[Item | None] = [*left, *[None] * (count - len(left))]
    b: list[Item | None] = [*right, *[None] * (count - len(right))]
    return list(zip(a, b, strict=True))


def _pair_in_order(left: list[Item], right: list[Item]) -> list[tuple[Item | None, Item | None]]:
    """Pairs along a long common subsequence; replaced items by position. The same pairs in either direction."""
    first, second = [*map(compute_fingerprint, left)], [*map(compute_fingerprint, right)]
    if repr(second) < repr(first):
        # The matcher may choose another common subsequence for the reverse.
        return [(a, b) for b, a in _pair_in_order(right, left)]
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    pairs: list[tuple[Item | None, Item | None]] = []
    for what, a, b, c, d in matcher.get_opcodes():
        if what != "equal":
            pairs += _pair_padded(left[a:b], right[c:d])
    return pairs


def _compare_precedence(before: Item, after: Item, path: str) -> Iterator[Difference]:
    """Topics that moved to the other side of a Pattern topic that matches their name, which gains or loses them."""
    first, second = _index_positions(before), _index_positions(after)
    for key in first:
        pattern = first[key].item.find_text("Pattern")
        if not pattern or key not in second:
            continue
        for other in first:
            # Only topics of both sides are compared: an added or removed topic is a difference already.
            if (
                other == key
                or other not in second
                or other.message_type != key.message_type
                or not _matches_pattern(pattern, other.name)
            ):
                continue
            was, now = (side[other].number < side[key].number for side in (first, second))
            if was != now:
                texts = [f"{'before' if earlier else 'after'} {key.name}" for earlier in (was, now)]
                path_of = f"{path}/Topic[{' '.join(other)}]"
                places = find_origin(first[other].item), find_origin(second[other].item)
                yield Difference("moved", path_of, texts[0], texts[1], places[0], places[1])


class _Position(Struct, frozen=True):
    item: Item
    number: int


def _index_positions(sow: Item) -> dict[TopicRef, _Position]:
    return {
        TopicRef(item.find_text("Name"), item.find_text("MessageType")): _Position(item, number)
        for number, item in enumerate(sow.children)
        if item.tag == "Topic"
    }


def _matches_pattern(pattern: str, name: str) -> bool:
    try:
        return compile_topic_search(pattern)(name)
    except ConfigError:
        return False


def _compare_event_order(before: Item, after: Item, path: str) -> Iterator[Difference]:
    """Actions at startup and shutdown that are equal in both configurations, but in another order."""
    for module in sorted(_ORDERED_EVENT_MODULES):
        left = [item for item in before.children if _listens_to(item, module)]
        right = [item for item in after.children if _listens_to(item, module)]
        same = {compute_fingerprint(item) for item in left} & {compute_fingerprint(item) for item in right}
        left = [item for item in left if compute_fingerprint(item) in same]
        right = [item for item in right if compute_fingerprint(item) in same]
        for a, b in zip(left, right, strict=False):
            if compute_fingerprint(a) != compute_fingerprint(b):
                yield Difference("moved", f"{path}/Action", None, None, find_origin(a), find_origin(b))
                break


def _listens_to(action: Item, module: str) -> bool:
    return any(step.tag == "On" and step.find_text("Module") == module for step in action.children)

"""The differences in meaning between two configurations: what ``config diff`` prints.

Order counts only where it has a meaning; units, synonyms and defaults do not count; expressions are compared as trees.
Works on :mod:`sowctl.config.items`. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from msgspec import Struct

from sowctl.config.items import Item
from sowctl.config.matching import search_of
from sowctl.config.meanings import IDENTITY, ORDERED, SEQUENCES, empty, fingerprint
from sowctl.config.show import ValueOrigin, origin_of
from sowctl.errors import ConfigError

_IN_ORDER = frozenset({"amps-action-on-startup", "amps-action-on-shutdown"})
"""Events whose actions run in the order of the file."""


class Difference(NamedTuple):
    """``path`` says what; texts and origins are None on the side that does not have it, texts also for sections."""

    change: Literal["added", "removed", "changed", "moved"]
    path: str
    before: str | None
    after: str | None
    before_origin: ValueOrigin | None
    after_origin: ValueOrigin | None


def differences(before: Item, after: Item) -> Iterator[Difference]:
    """All differences between two typed configurations, in the order of the first one."""
    yield from _containers(before, after, "")


def _containers(before: Item, after: Item, path: str) -> Iterator[Difference]:
    left, right = _groups(before), _groups(after)
    # In the order of the first configuration; what only the second one has follows.
    for tag in dict.fromkeys((*left, *right)):
        yield from _siblings(left.get(tag, []), right.get(tag, []), before.tag, f"{path}/{tag}")
    if before.tag == "SOW":
        yield from _precedence(before, after, path)
    if before.tag == "Actions":
        yield from _events(before, after, path)


def _groups(item: Item) -> dict[str, list[Item]]:
    """The children by name, without those that have no effect of their own; those of a sequence all under one."""
    found: dict[str, list[Item]] = {}
    for child in item.children:
        if not empty(child) and child.row.retired is None:
            # Steps of several names form one sequence, so they must not be compared name by name.
            found.setdefault("step" if item.tag in SEQUENCES else child.tag, []).append(child)
    return found


def _siblings(left: list[Item], right: list[Item], parent: str, path: str) -> Iterator[Difference]:
    tag = (left or right)[0].tag
    identity = IDENTITY.get((parent, tag))
    # Where the order has a meaning, siblings are compared by their place in it.
    if parent in SEQUENCES or (parent, tag) in ORDERED:
        pairs = _in_order(left, right)
    elif identity is not None:
        pairs = _by_name(left, right, identity)
    # A single element needs neither a name nor a number in its path.
    elif len(left) <= 1 and len(right) <= 1:
        pairs = [(left[0] if left else None, right[0] if right else None)]
        yield from _pairs(pairs, [path])
        return
    else:
        pairs = _in_any_order(left, right)
    yield from _pairs(pairs, _labels(pairs, left, right, identity, path))


def _labels(
    pairs: list[tuple[Item | None, Item | None]],
    left: list[Item],
    right: list[Item],
    identity: tuple[str, ...] | None,
    path: str,
) -> list[str]:
    if identity is not None:
        chosen = [a if a is not None else b for a, b in pairs]
        return [f"{path}[{' '.join(filter(None, _name(item, identity)))}]" for item in chosen if item is not None]
    # The number in the first configuration wins; what only the second has goes by its number there.
    numbers = {id(item): number for items in (right, left) for number, item in enumerate(items, start=1)}
    return [f"{path}[{numbers[id(a if a is not None else b)]}]" for a, b in pairs]


def _pairs(pairs: Iterable[tuple[Item | None, Item | None]], paths: list[str]) -> Iterator[Difference]:
    for (a, b), path in zip(pairs, paths, strict=True):
        if a is None or b is None:
            yield _one_sided(a, b, path)
        elif a.children and b.children:
            yield from _containers(a, b, path)
        # By meaning: another spelling of the same value is no difference.
        elif fingerprint(a) != fingerprint(b):
            yield Difference("changed", path, _said(a), _said(b), origin_of(a), origin_of(b))


def _one_sided(a: Item | None, b: Item | None, path: str) -> Difference:
    if a is not None:
        return Difference("removed", path, _said(a), None, origin_of(a), None)
    assert b is not None
    return Difference("added", path, None, _said(b), None, origin_of(b))


def _said(item: Item) -> str | None:
    return None if item.children or item.value is None else item.text


def _name(item: Item, identity: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item.said(tag) for tag in identity)


def _by_name(left: list[Item], right: list[Item], identity: tuple[str, ...]) -> list[tuple[Item | None, Item | None]]:
    """Pairs of equal names; of a name that occurs several times, those that are equal, then in sequence."""
    names = dict.fromkeys(_name(item, identity) for item in (*left, *right))
    pairs: list[tuple[Item | None, Item | None]] = []
    sides: list[dict[tuple[str, ...], list[Item]]] = [{}, {}]
    for found, items in zip(sides, (left, right), strict=True):
        for item in items:
            found.setdefault(_name(item, identity), []).append(item)
    for name in names:
        pairs += _in_any_order(sides[0].get(name, []), sides[1].get(name, []))
    return pairs


def _in_any_order(left: list[Item], right: list[Item]) -> list[tuple[Item | None, Item | None]]:
    """Pairs of what is equal, then the rest in sequence."""
    if len(left) == 1 and len(right) == 1:
        return [(left[0], right[0])]
    waiting: dict[Hashable, list[Item]] = {}
    for item in right:
        waiting.setdefault(fingerprint(item), []).append(item)
    rest = []
    for item in left:
        equal = waiting.get(fingerprint(item))
        if equal:
            # One for one: of three equal entries here and two there, one is left over.
            equal.pop(0)
        else:
            rest.append(item)
    remaining = {id(item) for items in waiting.values() for item in items}
    others = [item for item in right if id(item) in remaining]
    return _padded(rest, others)


def _padded(left: list[Item], right: list[Item]) -> list[tuple[Item | None, Item | None]]:
    count = max(len(left), len(right))
    a: list[Item | None] = [*left, *[None] * (count - len(left))]
    b: list[Item | None] = [*right, *[None] * (count - len(right))]
    return list(zip(a, b, strict=True))


def _in_order(left: list[Item], right: list[Item]) -> list[tuple[Item | None, Item | None]]:
    """Pairs along a long common sequence; what was replaced in sequence. The same pairs in either direction."""
    first, second = [*map(fingerprint, left)], [*map(fingerprint, right)]
    if repr(second) < repr(first):
        # The matcher may choose another common sequence for the reverse.
        return [(a, b) for b, a in _in_order(right, left)]
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    pairs: list[tuple[Item | None, Item | None]] = []
    for what, a, b, c, d in matcher.get_opcodes():
        if what != "equal":
            pairs += _padded(left[a:b], right[c:d])
    return pairs


def _precedence(before: Item, after: Item, path: str) -> Iterator[Difference]:
    """Topics that stand on the other side of a Pattern topic that matches their name: it takes them, or no longer."""
    first, second = _positions(before), _positions(after)
    for key in first:
        pattern = first[key].item.said("Pattern")
        if not pattern or key not in second:
            continue
        for other in first:
            # Only topics of both sides are compared: one that is new or gone is a difference already.
            if other == key or other not in second or other[1] != key[1] or not _matches(pattern, other[0]):
                continue
            was, now = (side[other].number < side[key].number for side in (first, second))
            if was != now:
                texts = [f"{'before' if earlier else 'after'} {key[0]}" for earlier in (was, now)]
                path_of = f"{path}/Topic[{' '.join(other)}]"
                places = origin_of(first[other].item), origin_of(second[other].item)
                yield Difference("moved", path_of, texts[0], texts[1], places[0], places[1])


class _Position(Struct, frozen=True):
    item: Item
    number: int


def _positions(sow: Item) -> dict[tuple[str, str], _Position]:
    return {
        (item.said("Name"), item.said("MessageType")): _Position(item, number)
        for number, item in enumerate(sow.children)
        if item.tag == "Topic"
    }


def _matches(pattern: str, name: str) -> bool:
    try:
        return search_of(pattern)(name)
    except ConfigError:
        return False


def _events(before: Item, after: Item, path: str) -> Iterator[Difference]:
    """Actions of start and end that are the same in both, in another order."""
    for module in sorted(_IN_ORDER):
        left = [item for item in before.children if _listens(item, module)]
        right = [item for item in after.children if _listens(item, module)]
        same = {fingerprint(item) for item in left} & {fingerprint(item) for item in right}
        left = [item for item in left if fingerprint(item) in same]
        right = [item for item in right if fingerprint(item) in same]
        for a, b in zip(left, right, strict=False):
            if fingerprint(a) != fingerprint(b):
                yield Difference("moved", f"{path}/Action", None, None, origin_of(a), origin_of(b))
                break


def _listens(action: Item, module: str) -> bool:
    return any(step.tag == "On" and step.said("Module") == module for step in action.children)

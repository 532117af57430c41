"""Paths resolved in parsed JSON (``sowctl-expressions(7)``, IDENTIFIERS), and the slot values of the results.

Works on the trees of both readers: dictionaries, lists, strings, Booleans, None, and numbers either as
:class:`~sowctl.values.fields.Number` (exact reader) or as ``int`` and ``float`` (fast reader).
"""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.values.fields import Number, Scalar, Slot, SlotValue, ValueList
from sowctl.values.paths import Step

MIN_INTEGER = -(1 << 63)
INTEGER_LIMIT = 1 << 64


def resolve_path(root: object, steps: Sequence[Step]) -> tuple[list[object], bool]:
    """The value list at ``steps`` below ``root``, and whether a non-empty object was dropped from it."""
    nodes = [root]
    for step in steps:
        found = find_members(nodes, step.name)[0]
        # A subscript counts through all values that the path has found so far, and finds nothing after the last of
        # them.
        nodes = found if step.index is None else found[step.index : step.index + 1]
    return drop_objects(nodes)


def find_members(nodes: Sequence[object], name: str) -> tuple[list[object], int]:
    """The values, arrays flattened, of the members ``name`` of the objects in ``nodes``, and the number of objects."""
    found: list[object] = []
    count = 0
    # Only objects have members: a step below a scalar finds nothing.
    for node in nodes:
        if type(node) is dict and name in node:
            count += 1
            child = node[name]
            if type(child) is list:
                found.extend(flatten_array(child))
            else:
                found.append(child)
    return found, count


def drop_objects(nodes: list[object]) -> tuple[list[object], bool]:
    """``nodes`` without its objects, and whether one of those had members."""
    # An object has no value of its own, but IS NULL depends on whether one with members was found.
    items = [node for node in nodes if type(node) is not dict]
    dropped = len(items) != len(nodes) and any(type(node) is dict and node for node in nodes)
    return items, dropped


def flatten_array(array: list[object]) -> list[object]:
    """The elements of ``array``, with nested arrays replaced by their elements, depth first."""
    # Most arrays contain no array and are returned unchanged.
    if list not in set(map(type, array)):
        return array
    flat: list[object] = []
    waiting = array[::-1]
    while waiting:
        node = waiting.pop()
        if type(node) is list:
            # Reversed on a stack, so that the elements are in the order of the text.
            waiting.extend(reversed(node))
        else:
            flat.append(node)
    return flat


def build_slot_value(items: Sequence[object], dropped: bool, slot: Slot) -> SlotValue:
    """Build the value of a slot from a value list: the cheap form if it is sufficient, else :class:`ValueList`."""
    if slot.listed or dropped or len(items) > 1:
        return ValueList(tuple([build_scalar(item, text=slot.text) for item in items]), dropped)
    return build_scalar(items[0], text=slot.text) if items else None


def build_scalar(item: object, *, text: bool) -> Scalar:
    """One value of a list. A number whose text is its decimal digits is a plain ``int`` even if its text is wanted."""
    if type(item) is Number:
        # The text of every other Integer can be restored from its value, so it need not be kept.
        if text and (type(item.value) is float or item.text == b"-0"):
            return item
        return item.value
    # msgspec reads integers of any size; beyond the range of Integers they are Doubles.
    if type(item) is int and not MIN_INTEGER <= item < INTEGER_LIMIT:
        digits = str(item)
        return Number(float(digits), digits.encode()) if text else float(digits)
    return item  # type: ignore[return-value]  # containers were dropped before


def build_key_text(items: Sequence[object]) -> bytes | None:
    """The text of the first value of a list; None for NULL, an empty String or an empty list."""
    # A list without values and a list that begins with NULL both give NULL as the key.
    if not items:
        return None
    first = items[0]
    if isinstance(first, str):
        return first.encode() or None
    if isinstance(first, Number):
        return first.text
    # Before int, because a bool is an int to isinstance().
    if isinstance(first, bool):
        return b"1" if first else b"0"
    return b"%d" % first if isinstance(first, int) else None


def build_value_list(value: object, index: int | None) -> tuple[list[object], bool]:
    """Build the value list of a path whose last step leads to ``value`` alone."""
    nodes = flatten_array(value) if type(value) is list else [value]
    return drop_objects(nodes if index is None else nodes[index : index + 1])

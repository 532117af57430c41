"""Key bounds: the records that a filter can match, as far as keys determine this (``sowctl-expressions(7)``,
comparison).

A bound is sound if every record that the filter matches is among its candidates; it may include others, so the filter
is still applied. Three facts restrict it:

* a literal with a numeric reading (``5``, ``'5'``, ``' 5 '``) equals values with other texts (``5.0``, ``05``), and
  keys are texts: only strings without a numeric reading identify one;
* a comparison uses all values of an identifier, but a key is built from the first: unless the path ends in a subscript,
  the caller must know that no record has several values there (``single_valued``);
* ``SOW_KEY()`` is a text, too; a number identifies a SOW key only if keys are generated, which have one spelling.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from msgspec import Struct, field

from sowctl.expressions.rewrites.rewriter import rewrite_expression
from sowctl.expressions.rewrites.truths import evaluate_constant, evaluate_constant_truth, is_constant
from sowctl.expressions.syntax import nodes as n
from sowctl.values.fields import SlotValue
from sowctl.values.paths import Path
from sowctl.values.scalars import parse_number


class KeyBound(Struct, frozen=True):
    """Candidates of a filter: none if ``nothing``; else those with one of ``keys`` (texts of the key fields in their
    order) and one of ``sow_keys``; None means unrestricted. If both are None, any record may match."""

    nothing: bool = False
    keys: tuple[tuple[bytes, ...], ...] | None = None
    sow_keys: frozenset[str] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether there is no restriction."""
        return not self.nothing and self.keys is None and self.sow_keys is None


class _KeyBox(Struct):
    """The texts that the key paths (by position) and the SOW key (under -1) must have; absent: any."""

    texts: dict[int, frozenset[bytes]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return any(not found for found in self.texts.values())


_SOW_KEY_POSITION = -1
_NO_TEXTS = frozenset[bytes]()


def find_key_bound(
    node: n.Node | None,
    key_paths: Sequence[Path],
    *,
    most: int,
    single_valued: bool = False,
    generated_keys: bool = False,
) -> KeyBound:
    """The bound of a checked filter for records whose key fields are ``key_paths``.

    ``most``: the maximum number of combinations of texts; with more there is no bound. ``single_valued``: no record has
    more than one value at a key path. ``generated_keys``: ``SOW_KEY()`` is the decimal text of the generated key in
    every record.
    """
    if node is None:
        return KeyBound()
    finder = _BoundFinder(tuple(key_paths), single_valued, generated_keys)
    # After the rewrites literals are folded and on the right, so that leaves have few forms.
    box = finder.build_box(rewrite_expression(node))
    if box.is_empty:
        return KeyBound(nothing=True)
    sow = box.texts.get(_SOW_KEY_POSITION)
    sets = [box.texts.get(place) for place in range(len(key_paths))]
    keys = None
    # A key is determined only if all of its fields are bound: each combination of their texts is a candidate.
    if sets and None not in sets:
        count = 1
        for found in sets:
            count *= len(found or ())
        if count <= most:
            keys = tuple(sorted(product(*[sorted(found or ()) for found in sets])))
    return KeyBound(keys=keys, sow_keys=None if sow is None else frozenset(text.decode() for text in sow))


class _BoundFinder:
    """Boxes of nodes. Every box contains all records for which the node is TRUE."""

    def __init__(self, key_paths: tuple[Path, ...], single_valued: bool, generated_keys: bool) -> None:
        self._places = {
            path: place for place, path in enumerate(key_paths) if single_valued or path.steps[-1].index is not None
        }
        self._generated = generated_keys

    def build_box(self, root: n.Node) -> _KeyBox:
        done: list[_KeyBox] = []
        stack: list[tuple[n.Node, bool]] = [(root, False)]
        while stack:
            node, visited = stack.pop()
            if not isinstance(node, n.Logic):
                done.append(self._leaf_box(node))
            elif not visited:
                stack.append((node, True))
                stack.extend((operand, False) for operand in reversed(node.operands))
            else:
                # The operands were finished last, in their order: their boxes are the last ones.
                parts = done[len(done) - len(node.operands) :]
                del done[len(done) - len(node.operands) :]
                done.append(_intersect_boxes(parts) if node.operator == "AND" else _unite_boxes(parts))
        return done[0]

    def _leaf_box(self, node: n.Node) -> _KeyBox:
        if is_constant(node):
            # A filter matches only if it is TRUE: for FALSE and NULL no record remains.
            return _KeyBox() if evaluate_constant_truth(node) else _KeyBox({_SOW_KEY_POSITION: _NO_TEXTS})
        if isinstance(node, n.Compare) and node.operator == "=":
            return self._among_box(node.left, (node.right,))
        if isinstance(node, n.In) and not node.negated:
            return self._among_box(node.operand, node.items)
        return _KeyBox()

    def _among_box(self, operand: n.Node, items: Sequence[n.Node]) -> _KeyBox:
        place = self._key_position(operand)
        # A computed member may have any value, so the list restricts nothing.
        if place is None or not all(map(is_constant, items)):
            return _KeyBox()
        found: set[bytes] = set()
        for item in items:
            texts = _equal_texts(evaluate_constant(item), place == _SOW_KEY_POSITION, self._generated)
            # A member whose texts cannot be listed makes the whole field unrestricted.
            if texts is None:
                return _KeyBox()
            found |= texts
        return _KeyBox({place: frozenset(found)})

    def _key_position(self, operand: n.Node) -> int | None:
        if isinstance(operand, n.Field) and not operand.qualifier and operand.modifier is None:
            return self._places.get(operand.path)
        if isinstance(operand, n.Call) and operand.name == "SOW_KEY":
            return _SOW_KEY_POSITION
        return None


def _equal_texts(value: SlotValue, sow: bool, generated: bool) -> set[bytes] | None:
    """The texts of a key field or SOW key (``sow``) that equal a literal; None if they cannot be listed."""
    # NULL and NaN equal nothing, so they have no texts.
    if value is None or value != value:
        return set()
    if isinstance(value, bytes):
        if sow:  # always a String, equal only to the identical text
            return {value} if value.isascii() else set()
        # '5' also equals 5.0 and '05', and so on: the number of texts is unlimited.
        return {value} if parse_number(value) is None else None
    if not (sow and generated) or not isinstance(value, int | float):
        return None
    # A generated key is a 64-bit integer; no record has another one. ``value - value`` is NaN for an infinity.
    whole = value - value == 0 and value == int(value) and 0 <= value < 1 << 64
    return {b"%d" % int(value)} if whole else set()


def _intersect_boxes(boxes: Sequence[_KeyBox]) -> _KeyBox:
    texts: dict[int, frozenset[bytes]] = {}
    for box in boxes:
        for place, found in box.texts.items():
            # A record must satisfy every operand of AND, so it has a text that all of them allow.
            texts[place] = texts[place] & found if place in texts else found
    return _KeyBox(texts)


def _unite_boxes(boxes: Sequence[_KeyBox]) -> _KeyBox:
    # An operand of OR that cannot be satisfied adds no candidates.
    alive = [box for box in boxes if not box.is_empty]
    if not alive:
        return _KeyBox({_SOW_KEY_POSITION: _NO_TEXTS})
    # A place that one operand does not restrict is unrestricted in the OR: only places bound by all operands remain.
    shared = set(alive[0].texts).intersection(*[box.texts for box in alive[1:]])
    return _KeyBox({place: frozenset().union(*[box.texts[place] for box in alive]) for place in shared})

"""NOT, IF, COALESCE, comparisons and IN lists in simpler forms.

No rewrite replaces another expression by a bare identifier: comparisons would use all its values instead of the first.
"""

from __future__ import annotations

from sowctl.expressions.rewrites.truths import evaluate_constant, evaluate_constant_truth, is_constant, is_truth
from sowctl.expressions.syntax import nodes as n


def fold_negation(node: n.Node) -> n.Node | None:
    """``NOT NOT p``: ``p`` if p is a truth value already; ``NOT (/a IN (1))``: ``/a NOT IN (1)``, and similar."""
    if not isinstance(node, n.Not):
        return None
    inner = node.operand
    if isinstance(inner, n.Not):
        return inner.operand if is_truth(inner.operand) else None
    # These predicates are never NULL, so NOT is their negated form. Comparisons are excluded: ``/a < 1`` and
    # ``/a >= 1`` are both FALSE if /a is NULL or NaN.
    match inner:
        case n.Is():
            return n.Is(inner.what, inner.operand, not inner.negated, span=node.span)
        case n.Like():
            return n.Like(inner.operand, inner.pattern, not inner.negated, span=node.span)
        case n.In():
            return n.In(inner.operand, inner.items, not inner.negated, span=node.span)
        case n.Affix():
            return n.Affix(inner.word, inner.operand, inner.items, not inner.negated, span=node.span)
        case n.Between():
            return n.Between(inner.operand, inner.low, inner.high, not inner.negated, span=node.span)
    return None


def bare_truths(node: n.Node) -> n.Node | None:
    """``NOT NOT /a AND b``: ``/a AND b``: AND, OR and NOT take the truth values of their operands anyway."""
    if isinstance(node, n.Not):
        bare = _strip_truth(node.operand)
        return None if bare is node.operand else n.Not(bare, span=node.span)
    if not isinstance(node, n.Logic):
        return None
    operands = tuple(map(_strip_truth, node.operands))
    if all(new is old for new, old in zip(operands, node.operands, strict=True)):
        return None
    return n.Logic(node.operator, operands, span=node.span)


def _strip_truth(node: n.Node) -> n.Node:
    while isinstance(node, n.Not) and isinstance(node.operand, n.Not):
        node = node.operand.operand
    return node


def choose_branch(node: n.Node) -> n.Node | None:
    """``IF(TRUE, 1, /b)``: ``1``; not if the branch is an identifier, which IF returns as a scalar."""
    if not isinstance(node, n.Call) or node.name != "IF" or not is_constant(node.arguments[0]):
        return None
    # A NULL condition selects the last branch, as FALSE does.
    branch = node.arguments[1] if evaluate_constant_truth(node.arguments[0]) else node.arguments[2]
    return None if isinstance(branch, n.Field) else branch


def first_present(node: n.Node) -> n.Node | None:
    """``COALESCE(NULL, /a, 1, /b)``: ``COALESCE(/a, 1)``."""
    if not isinstance(node, n.Call) or node.name != "COALESCE":
        return None
    kept: list[n.Node] = []
    for argument in node.arguments:
        # A constant that is not NULL is the result if it is reached: the arguments after it are never evaluated.
        constant = is_constant(argument)
        if constant and evaluate_constant(argument) is None:
            continue
        kept.append(argument)
        if constant:
            break
    if not kept:
        return n.Literal(None, span=node.span)
    # COALESCE returns a scalar; a bare identifier would return all values of its field.
    if len(kept) == 1 and not isinstance(kept[0], n.Field):
        return kept[0]
    return None if len(kept) == len(node.arguments) else n.Call(node.name, tuple(kept), span=node.span)


def field_first(node: n.Node) -> n.Node | None:
    """``5 < /a``: ``/a > 5``."""
    # A comparison of two constants is left to folding.
    if not isinstance(node, n.Compare) or not is_constant(node.left) or is_constant(node.right):
        return None
    return n.Compare(n.SWAPPED_OPERATORS[node.operator], node.right, node.left, span=node.span)


def prune_members(node: n.Node) -> n.Node | None:
    """``/a IN (1, NULL, 1)``: ``/a = 1``. NULL equals nothing; a repeated literal adds nothing."""
    if not isinstance(node, n.In):
        return None
    kept: list[n.Node] = []
    seen: set[str] = set()
    for item in node.items:
        if is_constant(item):
            # By canonical text: 1 and 1.0 are both kept, which costs a test but is correct; 'a' and "a" are one.
            text = str(item)
            if evaluate_constant(item) is None or text in seen:
                continue
            seen.add(text)
        kept.append(item)
    # NOT IN of a NULL operand is TRUE while ``<>`` is FALSE, so NOT IN is kept.
    if len(kept) == 1 and not node.negated:
        return n.Compare("=", node.operand, kept[0], span=node.span)
    # A list without members cannot be written in the language.
    if not kept or len(kept) == len(node.items):
        return None
    return n.In(node.operand, tuple(kept), node.negated, span=node.span)

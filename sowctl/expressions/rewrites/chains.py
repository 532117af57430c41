"""Chains of AND and OR: flattened, cut after a deciding constant, equalities of one field merged into IN."""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.expressions.rewrites.truths import evaluate_constant_truth, is_constant, is_truth
from sowctl.expressions.syntax import nodes as n


def flatten(node: n.Node) -> n.Node | None:
    """``(a AND b) AND c``: ``a AND b AND c``; also on the right: both operators are associative, also for NULL."""
    if not isinstance(node, n.Logic):
        return None
    operands: list[n.Node] = []
    for operand in node.operands:
        if isinstance(operand, n.Logic) and operand.operator == node.operator:
            operands += operand.operands
        else:
            operands.append(operand)
    if len(operands) == len(node.operands):
        return None
    return n.Logic(node.operator, tuple(operands), span=node.span)


def cut_chain(node: n.Node) -> n.Node | None:
    """``TRUE AND a AND FALSE AND b``: ``a AND FALSE``. Operands after a deciding constant are never evaluated."""
    if not isinstance(node, n.Logic):
        return None
    neutral = node.operator == "AND"
    kept: list[n.Node] = []
    for operand in node.operands:
        constant = is_constant(operand)
        # TRUE in AND and FALSE in OR change nothing in any position.
        if constant and evaluate_constant_truth(operand) is neutral:
            continue
        kept.append(operand)
        # Every other constant decides: FALSE (TRUE in OR) is the result, and NULL on the left stays NULL whatever
        # follows.
        if constant:
            break
    if len(kept) == len(node.operands):
        return None
    return _build_chain(node, kept, neutral)


def _build_chain(node: n.Logic, kept: Sequence[n.Node], neutral: bool) -> n.Node | None:
    """The chain of the remaining operands; None if a single one would not have the value of the chain."""
    if not kept:
        return n.Literal(neutral, span=node.span)
    if len(kept) > 1:
        return n.Logic(node.operator, tuple(kept), span=node.span)
    if is_constant(kept[0]):
        return n.Literal(evaluate_constant_truth(kept[0]), span=node.span)
    # A chain has the truth value of its operand; a single operand may replace it only if its value is a truth value.
    if is_truth(kept[0]):
        return kept[0]
    short = n.Logic(node.operator, (kept[0], n.Literal(neutral)), span=node.span)
    return short if len(node.operands) > 2 else None


def negate_disjunction(node: n.Node) -> n.Node | None:
    """``NOT (a OR b)``: ``NOT a AND NOT b``, which can be split; NULL on the left gives NULL in both."""
    if not isinstance(node, n.Not) or not isinstance(node.operand, n.Logic) or node.operand.operator != "OR":
        return None
    return n.Logic("AND", tuple(n.Not(operand, span=operand.span) for operand in node.operand.operands), span=node.span)


def merge_equalities(node: n.Node) -> n.Node | None:
    """``/a = 1 OR /a = 2 OR b``: ``/a IN (1, 2) OR b``, for adjacent operands and literals only."""
    if not isinstance(node, n.Logic) or node.operator != "OR":
        return None
    # Only adjacent operands are merged. A condition between two equalities may be NULL, which ends the OR: moving an
    # equality across it would turn NULL into TRUE.
    merged: list[n.Node] = []
    run: list[n.Node] = []
    field: n.Field | None = None
    items: list[n.Node] = []
    # The None after the last operand ends the last run.
    for operand in (*node.operands, None):
        members = _in_list_members(operand) if operand is not None else None
        if operand is not None and members is not None and field is not None and members[0] == field:
            run.append(operand)
            items += members[1]
            continue
        merged += run if len(run) < 2 or field is None else [_one_of(field, items, run)]
        run, field, items = [], None, []
        if members is not None and operand is not None:
            run, (field, found) = [operand], members
            items = list(found)
        elif operand is not None:
            merged.append(operand)
    if len(merged) == len(node.operands):
        return None
    return n.Logic("OR", tuple(merged), span=node.span) if len(merged) > 1 else merged[0]


def _one_of(field: n.Field, items: Sequence[n.Node], run: Sequence[n.Node]) -> n.In:
    return n.In(field, tuple(items), False, span=(run[0].span[0], run[-1].span[1]))


def _in_list_members(node: n.Node) -> tuple[n.Field, tuple[n.Node, ...]] | None:
    if isinstance(node, n.Compare) and node.operator == "=":
        if isinstance(node.left, n.Field) and is_constant(node.right):
            return node.left, (node.right,)
    elif isinstance(node, n.In) and not node.negated and all(map(is_constant, node.items)):
        return (node.operand, node.items) if isinstance(node.operand, n.Field) else None
    return None

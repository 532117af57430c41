"""Rewrites of checked expressions into equivalent ones that are cheaper or easier to plan with.

Every rewrite is a small function from a node to a node or None, in the tuple ``REWRITES``; constant folding, which uses
the row evaluator, is here. Each keeps value, kind, NULL, NaN and errors for every message (``sowctl-expressions(7)``,
logic: NULL on the left of AND and OR stays NULL whatever follows, so operands cannot be exchanged, and no rewrite
changes an order).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from sowctl.expressions.environment import Environment
from sowctl.expressions.functions import FUNCTIONS
from sowctl.expressions.rewrites.chains import cut_chain, flatten, merge_equalities, negate_disjunction
from sowctl.expressions.rewrites.predicates import (
    bare_truths,
    choose_branch,
    field_first,
    first_present,
    fold_negation,
    prune_members,
)
from sowctl.expressions.rewrites.truths import evaluate_constant, is_constant
from sowctl.expressions.rows.arithmetic import OPERATORS
from sowctl.expressions.rows.program import compile_checked_value
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.nodes import Logic, Node
from sowctl.expressions.syntax.trees import replace_children
from sowctl.values.fields import Number, SlotValue, ValueList

RewriteFunction: TypeAlias = Callable[[Node], Node | None]
MAX_REWRITE_PASSES = 8
_MAX_FOLDED_BYTES = 4096
"""Maximum size in bytes of a text that folding may produce."""


def fold(node: Node) -> Node | None:
    """``1 + 2``: ``3``. Not if a match limit could be exceeded, or if the run's clock, names or random bytes are
    used."""
    below = node.list_children()
    # Fields and patterns have no operands either, but are not constants.
    if is_constant(node) or not all(map(is_constant, below)) or isinstance(node, n.Field | n.Pattern):
        return None
    if isinstance(node, n.Call) and not _is_pure(node):
        return None
    # The row evaluator defines every result, so it computes this one, too: folding has no rules of its own.
    value = compile_checked_value(node, "", {})
    return build_literal(value.compute_values([()], Environment(lambda: 0))[0], node.span)


def fold_prefix(node: Node) -> Node | None:
    """``1 + 2 + /a``: ``3 + /a``. Chains are evaluated from left to right, so only their beginning is folded."""
    if not isinstance(node, n.Arithmetic) or len(node.operands) < 3:
        return None
    first, second = node.operands[:2]
    if not (is_constant(first) and is_constant(second)):
        return None
    # ``/a + 1 + 2`` is not ``/a + 3``: sums of Doubles are rounded after each step, and Integers may overflow at a
    # step.
    value = OPERATORS[node.operators[0]](evaluate_constant(first), evaluate_constant(second))
    folded = build_literal(value, (first.span[0], second.span[1]))
    if folded is None:
        return None
    return n.Arithmetic(node.operators[1:], (folded, *node.operands[2:]), span=node.span)


def build_literal(value: SlotValue, span: n.Span = (0, 0)) -> Node | None:
    """The constant node of a value; None if there is none."""
    # Lists, and numbers with their original text, have no literal; a long text would enlarge the tree.
    if isinstance(value, ValueList | Number) or (isinstance(value, bytes) and len(value) > _MAX_FOLDED_BYTES):
        return None
    if isinstance(value, str):
        value = value.encode()
    # Literals have no sign. copysign also detects the sign of -0.0, which ``value < 0`` does not.
    if isinstance(value, int | float) and value == value and math.copysign(1.0, value) < 0:
        return n.Unary("-", n.Literal(-value, span=span), span=span)
    return n.Literal(value, span=span)


def _is_pure(call: n.Call) -> bool:
    if call.name == "IF":
        return True
    function = FUNCTIONS.get(call.name)
    # A function that uses the clock, the header or a name has different results in other runs or records.
    if function is None or not function.is_pure:
        return False
    # A match may exceed the limit of the engine, and that error belongs to a message.
    return "pattern" not in function.parameters


# Folding is first, so that the others find literals instead of computations. The last ones merge equalities,
# which have their final form by then.
REWRITES: tuple[RewriteFunction, ...] = (
    fold,
    fold_prefix,
    flatten,
    cut_chain,
    fold_negation,
    bare_truths,
    negate_disjunction,
    choose_branch,
    first_present,
    field_first,
    prune_members,
    merge_equalities,
)


class AppliedRewrite(Struct, frozen=True):
    """One applied rewrite: its name, and the text before and after."""

    name: str
    before: str
    after: str


def rewrite_expression(node: Node, steps: list[AppliedRewrite] | None = None) -> Node:
    """The rewritten tree; applied rewrites are appended to ``steps``, from the leaves up."""
    # One rewrite may enable another in a parent or child node. Stopping early leaves a tree that is correct, only
    # less simple, because each rewrite alone preserves the meaning.
    for _ in range(MAX_REWRITE_PASSES):
        changed = _run_pass(node, steps)
        if changed is node:
            break
        node = changed
    return node


def list_conjuncts(node: Node | None) -> list[Node]:
    """The conditions that must all hold for a filter: those of the outermost AND of its rewritten tree."""
    if node is None:
        return []
    # Rewritten first, because the conditions of NOT (a OR b) and of nested ANDs are visible only afterwards.
    node = rewrite_expression(node)
    return list(node.operands) if isinstance(node, Logic) and node.operator == "AND" else [node]


def _run_pass(root: Node, steps: list[AppliedRewrite] | None) -> Node:
    """One pass through the tree, operands first; returns the same object if nothing changed."""
    done: list[Node] = []
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        current, visited = stack.pop()
        below = current.list_children()
        if below and not visited:
            stack.append((current, True))
            stack.extend((child, False) for child in reversed(below))
            continue
        if below:
            operands = done[len(done) - len(below) :]
            del done[len(done) - len(below) :]
            # By identity: comparing subtrees would make a pass quadratic in the depth.
            if any(new is not old for new, old in zip(operands, below, strict=True)):
                current = replace_children(current, operands)
        done.append(_apply_rewrites(current, steps))
    return done[0]


def _apply_rewrites(node: Node, steps: list[AppliedRewrite] | None) -> Node:
    # The rewrites are applied in the order of the tuple; each receives the result of the one before it.
    for change in REWRITES:
        other = change(node)
        if other is not None:
            if steps is not None:
                steps.append(AppliedRewrite(change.__name__, str(node), str(other)))
            node = other
    return node

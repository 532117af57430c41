"""Rewrites of checked expressions into ones that mean the same and are cheaper or easier to plan with.

Every rewrite is a small function from a node to a node or None, in the tuple ``REWRITES``. Each keeps value, kind,
NULL, NaN and errors for every message (``sowctl-expressions(7)``, logic: NULL on the left of AND and OR stays NULL
whatever follows, so the two are not symmetric, and nothing here changes an order).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from sowctl.expressions.rewrites.chains import cut_chain, flatten, merge_equalities, negate_disjunction
from sowctl.expressions.rewrites.constants import fold, fold_prefix
from sowctl.expressions.rewrites.predicates import (
    bare_truths,
    choose_branch,
    field_first,
    first_present,
    fold_negation,
    prune_members,
)
from sowctl.expressions.syntax.nodes import Logic, Node
from sowctl.expressions.syntax.trees import replace_children

RewriteFunction: TypeAlias = Callable[[Node], Node | None]

# Folding comes first: the others then meet literals where there were computations. The last ones gather equalities that
# have their final form by then.
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
MAX_REWRITE_PASSES = 8


class AppliedRewrite(Struct, frozen=True):
    """One rewrite that was made: its name, and the text before and after."""

    name: str
    before: str
    after: str


def rewrite_expression(node: Node, steps: list[AppliedRewrite] | None = None) -> Node:
    """The rewritten tree; ``steps`` is filled with what was done, from the leaves up."""
    # One rewrite may open the way for another further up or down. Stopping early leaves a tree that is correct, only
    # less simple, because each rewrite keeps the meaning by itself.
    for _ in range(MAX_REWRITE_PASSES):
        changed = _run_pass(node, steps)
        if changed is node:
            break
        node = changed
    return node


def list_conjuncts(node: Node | None) -> list[Node]:
    """The conditions that a filter demands all together: those of the outermost AND, its tree rewritten."""
    if node is None:
        return []
    # Rewritten first, because NOT (a OR b) and nested ANDs show their conditions only then.
    node = rewrite_expression(node)
    return list(node.operands) if isinstance(node, Logic) and node.operator == "AND" else [node]


def _run_pass(root: Node, steps: list[AppliedRewrite] | None) -> Node:
    """One way through the tree, operands first; the same object where nothing changed."""
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
    # The order of the tuple is the order of application; each rewrite sees what the one before it made.
    for change in REWRITES:
        other = change(node)
        if other is not None:
            if steps is not None:
                steps.append(AppliedRewrite(change.__name__, str(node), str(other)))
            node = other
    return node

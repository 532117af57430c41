"""Walking, comparing and changing trees of nodes, without recursion: depth and length are bounded by memory only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sowctl.expressions.syntax.nodes import Node


def same(a: Node, b: Node) -> bool:
    """Whether two trees are equal, places aside; 1, 1.0 and TRUE differ, NAN equals NAN."""
    pairs = [(a, b)]
    while pairs:
        left, right = pairs.pop()
        if type(left) is not type(right) or _own(left) != _own(right):
            return False
        below, others = left.children(), right.children()
        if len(below) != len(others):
            return False
        pairs.extend(zip(below, others, strict=True))
    return True


def _own(node: Node) -> tuple[Any, ...]:
    own = []
    for name, part in zip(node.FIELDS, node.parts, strict=True):
        below = isinstance(part, Node) or (type(part) is tuple and bool(part) and isinstance(part[0], Node))
        if below or name == "modifier_at":
            continue
        own.append((type(part).__name__, repr(part) if isinstance(part, float) else part))
    return tuple(own)


def walk(node: Node) -> Iterator[Node]:
    """Every node of the tree, parents first, operands from left to right."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children()))


def walk_up(node: Node) -> Iterator[Node]:
    """Every node of the tree, operands from left to right before what they belong to."""
    stack = [(node, False)]
    while stack:
        current, visited = stack.pop()
        below = () if visited else current.children()
        if not below:
            yield current
            continue
        stack.append((current, True))
        stack.extend((child, False) for child in reversed(below))


def transform(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """A copy of the tree in which every node that ``change`` answers is replaced by the answer."""
    done: list[Node] = []
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        current, visited = stack.pop()
        below = current.children()
        if visited:
            operands = done[len(done) - len(below) :]
            del done[len(done) - len(below) :]
            done.append(replace_children(current, operands) if below else current)
            continue
        other = change(current)
        if other is not None:
            done.append(other)
            continue
        stack.append((current, True))
        stack.extend((child, False) for child in reversed(below))
    return done[0]


def replace_children(node: Node, operands: list[Node]) -> Node:
    """The same node with other operands, as many as it has."""
    rest = iter(operands)
    parts: list[Any] = []
    for part in node.parts:
        if isinstance(part, Node):
            parts.append(next(rest))
        elif type(part) is tuple and part and isinstance(part[0], Node):
            parts.append(tuple(next(rest) for _ in part))
        else:
            parts.append(part)
    return type(node)(*parts, span=node.span)

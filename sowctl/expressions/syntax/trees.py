"""Walking and transforming trees of nodes, without recursion: depth and length are bounded by memory only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sowctl.expressions.syntax.nodes import Node


def walk_tree(node: Node) -> Iterator[Node]:
    """Every node of the tree, parents first, operands from left to right."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        # Reversed, because the last one pushed on the stack is the first one popped.
        stack.extend(reversed(current.list_children()))


def walk_bottom_up(node: Node) -> Iterator[Node]:
    """Every node of the tree, operands from left to right before the node that uses them."""
    stack = [(node, False)]
    while stack:
        current, visited = stack.pop()
        below = () if visited else current.list_children()
        if not below:
            yield current
            continue
        stack.append((current, True))
        stack.extend((child, False) for child in reversed(below))


def transform_tree(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """A copy of the tree in which each node is replaced by the result of ``change``, unless that is None."""
    done: list[Node] = []
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        current, visited = stack.pop()
        below = current.list_children()
        # The operands were finished last: they are at the end of the list.
        if visited:
            operands = done[len(done) - len(below) :]
            del done[len(done) - len(below) :]
            done.append(replace_children(current, operands) if below else current)
            continue
        # Before the operands: the tree below a replaced node is not visited.
        other = change(current)
        if other is not None:
            done.append(other)
            continue
        stack.append((current, True))
        stack.extend((child, False) for child in reversed(below))
    return done[0]


def replace_children(node: Node, operands: list[Node]) -> Node:
    """A copy of the node with other operands, of the same number."""
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

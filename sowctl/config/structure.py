"""Check an element and its descendants against the element table: names, multiplicity, values and ranges.

One generator for both users of the table: :mod:`sowctl.config.instance` stops at the first error of the sections that
it models, :mod:`sowctl.config.validate` shows all. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from sowctl.config.document import ElementNode
from sowctl.config.elements.element import Element
from sowctl.config.kinds import CONTAINER_KINDS, VALUE_KINDS, Wrong, find_bounds_fault, find_value_rule, read_value
from sowctl.config.problems import build_node_finding
from sowctl.findings import Finding, Level, Place

DeepCheck = Callable[[ElementNode, Element], Iterator[Finding]]
TOLERATED_TAGS = frozenset({"LeaseTimeout", "ReuseAddr", "AccessControlAllowOrigin", "BatchSize"})
"""Undocumented names that occur in configurations of running instances."""
MAX_PARENTS = 3
"""Maximum number of places to name for a misplaced element."""
_PIECE = r"(?s)<!--.*?-->|<\?.*?\?>|(</[^>]*>)|(<[^!](?:[^\"'>]|\"[^\"]*\"|'[^']*')*>)|(<!\[CDATA\[.*?\]\]>|[^<\s]+)|<"
_HINTS = {
    "LeaseTimeout": "LeasePeriod is the documented name",
    "BatchSize": "it is a parameter of the client's sow command",
}
_RAISED_BOUND_HINTS = {"S044": "values below 10MB are increased to 10MB"}
"""Bounds to which a value is raised: a warning, with the hint."""
_INTERVAL_KINDS = frozenset({"interval", "expiration", "expiration:queue"})
_INFO_RULES = frozenset({"D002", "D009", "D010", "D015"})
_RETIRED_HINTS = {"D008": "SlabSize and InitialSlabCount replace it", "D015": "a view has no file; remove it"}


def check_element(node: ElementNode, row: Element, deep: DeepCheck | None = None) -> Iterator[Finding]:
    """Findings of ``node`` as an instance of ``row``; ``deep`` checks the kinds that :mod:`sowctl.config.kinds` does
    not read."""
    for name in node.attributes:
        message = f"unexpected attribute '{name}' on {node.tag}"
        yield build_node_finding(
            "X012", node, message, "write an element; only Include has an attribute", level=Level.WARNING
        )
    # The options of a module are not checked here.
    if row.kind == "opaque":
        return
    # A mixed element is a text or a container, depending on its content.
    if row.kind in CONTAINER_KINDS and (row.kind != "mixed" or node.children):
        yield from _check_container(node, row, deep)
    else:
        yield from _check_value(node, row, deep)


def _check_container(node: ElementNode, row: Element, deep: DeepCheck | None) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for child in node.children:
        below = row.find_child(child.tag)
        if below is None:
            if row.kind != "open":
                unknown, close = _judge_unknown(child, row, node)
                yield unknown
                # The intended element counts as present.
                seen.setdefault(close or "", 0)
            continue
        # Counted by the present name, so that an element under two names counts as two.
        seen[below.tag] = seen.get(below.tag, 0) + 1
        if child.children and below.kind not in CONTAINER_KINDS:
            # S075 reports an element that has swallowed its siblings: these are not reported as missing.
            for inside in child.children:
                seen.setdefault(inside.tag, 0)
        if child.tag != below.tag:
            yield from _check_other_name(child, below)
        if below.retired is not None:
            yield build_node_finding(
                below.retired,
                child,
                f"{child.tag} is retired",
                _RETIRED_HINTS[below.retired],
                level=_choose_level(below.retired),
            )
        if below.is_single and seen[below.tag] > 1:
            what = child.tag if child.tag == below.tag else f"{below.tag} (here as {child.tag})"
            yield build_node_finding("S003", child, f"{what} may appear only once in {node.tag}", "remove one of them")
        yield from check_element(child, below, deep)
    for below in row.children:
        # If an include is missing, the element may be in it, so its absence is not conclusive.
        if below.is_required and below.tag not in seen and node.complete:
            yield build_node_finding(
                below.missing, node, f"{_format_name(node)} requires {_add_article(below.tag)}", f"add <{below.tag}>"
            )
    if node.text and row.kind == "section":
        text = node.text.split("\n", 1)[0][:40]
        yield build_node_finding(
            "X011", node, f"stray text {text!r} inside {node.tag}", level=Level.WARNING, place=_find_stray_text(node)
        )


def _find_stray_text(node: ElementNode) -> Place:
    """The place of the first text between the children of a section, which should have none."""
    depth = 0
    for match in re.compile(_PIECE).finditer(node.source.text, max(node.inner, 0)):
        if match[1]:
            depth -= 1
        elif match[2]:
            depth += not match[2].endswith("/>")
        elif match[3] and depth == 0:
            return node.source.find_place(match.start(), node.place.element)
        # The end tag of the section itself: the following text belongs to other elements.
        if depth < 0:
            break
    return node.place


def _check_value(node: ElementNode, row: Element, deep: DeepCheck | None) -> Iterator[Finding]:
    if node.children:
        inside = node.children[0].tag
        hint = f"close {node.tag} before <{inside}>"
        yield build_node_finding("S075", node, f"{node.tag} contains child elements but takes text only", hint)
        return
    if not node.text and (row.is_required or row.kind in ("mixed", "address")):
        yield build_node_finding(row.missing if row.kind == "mixed" else "S009", node, f"{node.tag} must not be empty")
        return
    try:
        read_value(row, node.text)
        yield from _check_size(node, row)
    except Wrong as error:
        yield build_node_finding(error.rule, node, f"{node.tag}: {error}")
    except ValueError as error:
        yield build_node_finding(find_value_rule(row), node, f"{node.tag}: {error}")
    # Texts of the expression language are left to the caller: a command that only loads does not import it.
    if deep is not None and row.kind not in VALUE_KINDS:
        yield from deep(node, row)


def _check_size(node: ElementNode, row: Element) -> Iterator[Finding]:
    odd = find_odd_interval(node.text) if row.kind in _INTERVAL_KINDS else None
    wrong = find_bounds_fault(row, node.text)
    # A value without a unit may be in range.
    if wrong is not None and row.bounds is not None and odd is None:
        level = Level.WARNING if row.bounds in _RAISED_BOUND_HINTS else Level.ERROR
        yield build_node_finding(
            row.bounds, node, f"{node.tag}: {wrong}", _RAISED_BOUND_HINTS.get(row.bounds), level=level
        )
    if odd is not None:
        yield build_node_finding("S026", node, f"{node.tag}: {odd[0]}", odd[1], level=Level.WARNING)


def find_odd_interval(text: str) -> tuple[str, str] | None:
    """Describe the fault of a readable interval and the fix: no unit, or a fraction; None if it has neither."""
    if text.strip("0") and text.isdigit():
        return f"{text!r} has no unit; seconds are assumed", f"write {text}s"
    if "." in text and text[0].isdigit():
        return f"{text!r} has a fraction, which is not documented", "write an integer in a smaller unit"
    return None


def _check_other_name(child: ElementNode, row: Element) -> Iterator[Finding]:
    rule = dict(row.synonyms)[child.tag]
    if rule is not None:
        message = f"{child.tag} is another name of {row.tag}"
        yield build_node_finding(rule, child, message, f"write {row.tag}", level=_choose_level(rule))


def _choose_level(rule: str) -> Level:
    return Level.INFO if rule in _INFO_RULES else Level.WARNING


def _judge_unknown(child: ElementNode, row: Element, node: ElementNode) -> tuple[Finding, str | None]:
    """The finding about an unknown element, and the known one that was probably meant."""
    if child.tag in TOLERATED_TAGS:
        message = f"unknown element {child.tag} in {node.tag}"
        hint = _HINTS.get(child.tag, "it is not documented")
        return build_node_finding("S002", child, message, hint, level=Level.WARNING), None
    from sowctl.config.suggestions import find_nearest_or_longer

    # A name that is known elsewhere is misplaced, not misspelt; only an unknown name gets a suggestion.
    parents = _find_parents(child.tag)
    close = None if parents else find_nearest_or_longer(child.tag, [below.tag for below in row.children])
    what = "it"
    # An invented section around known elements: ``Queues`` for ``Queue``.
    if close is None and not parents and child.tag.endswith("s"):
        parents = _find_parents(child.tag[:-1])
        what = f"the section does not exist; {child.tag[:-1]}"
    if parents:
        # The whole path: elements of one name, such as Topic, occur in several sections with different children.
        here = (node.place.element or node.tag).strip("/").removeprefix("AMPSConfig/")
        places = " or ".join(parents[:MAX_PARENTS]) + (" and others" if len(parents) > MAX_PARENTS else "")
        message = f"{child.tag} is not allowed in {here}; {what} belongs in {places}"
        hint = f"move it into {parents[0]}" if len(parents) == 1 else "move it into one of these"
        return build_node_finding("S001", child, message, hint), None
    message = f"unknown element {child.tag} in {node.tag}"
    if close is None:
        return build_node_finding("S002", child, message), None
    hint = f"write <{close}>; names are case-sensitive"
    return build_node_finding("S002", child, f"{message}; did you mean {close}?", hint), close


@lru_cache(maxsize=1024)
def _find_parents(tag: str) -> list[str]:
    """The paths of the elements that may contain one of this name; none if the name is unknown."""
    from sowctl.config.elements.parent_paths import find_parents

    return find_parents(tag)


def _format_name(node: ElementNode) -> str:
    name = node.find_text("Name", "Topic")
    return f"{node.tag} '{name}'" if name else node.tag


def _add_article(tag: str) -> str:
    return f"{'an' if tag[0] in 'AEIOU' else 'a'} {tag}"

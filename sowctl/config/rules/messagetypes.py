"""Rules of MessageTypes/MessageType: required settings of modules."""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config.document import ElementNode
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.survey import Survey
from sowctl.config.suggestions import has_misspelled_child


def _find_module(node: ElementNode) -> str:
    return node.find_text("Module") or node.find_text("Name") or ""


def composite_without_parts(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a composite message type without MessageType parts.

    Why: a composite message is a sequence of parts, each of a known type.
    Example: only ``<Module>composite-local</Module>``.
    Instead: list the types of the parts in order.
    """
    if (
        _find_module(node).startswith("composite-")
        and node.find("MessageType") is None
        and not has_misspelled_child(node, "MessageType")
    ):
        yield Problem(node, "composite message type requires at least one MessageType part", "list its parts in order")


def protobuf_incomplete(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a protobuf message type without Type, ProtoPath or ProtoFile.

    Why: protobuf messages cannot be read without their definition.
    Example: only ``<Module>protobuf</Module>``.
    Instead: add the three elements.
    """
    if _find_module(node) != "protobuf":
        return
    for needed in ("Type", "ProtoPath", "ProtoFile"):
        if node.find(needed) is None and not has_misspelled_child(node, needed):
            yield Problem(node, f"protobuf message type requires {needed}", f"add <{needed}>")


def struct_without_fields(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a struct message type without Field.

    Why: the fields define the layout.
    Example: only ``<Module>struct</Module>``.
    Instead: add ``<Field>/price = d</Field>`` and so on, in order.
    """
    if _find_module(node) == "struct" and node.find("Field") is None and not has_misspelled_child(node, "Field"):
        yield Problem(node, "struct message type requires at least one Field", "add <Field>/name = code</Field>")


def equals_sign(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: the fields of a fix or nvfix message type end with the equals sign.

    Why: the equals sign separates tags and values, so no message could be read.
    Example: ``<FieldSeparator>61</FieldSeparator>``.
    Instead: choose a byte that occurs in neither tags nor values, such as 1.
    """
    separator = node.find("FieldSeparator")
    fields = survey.types.get(_find_module(node), "") in ("fix", "nvfix")
    if separator is not None and fields and separator.text.isdecimal() and int(separator.text[:9]) == ord("="):
        yield Problem(separator, "FieldSeparator is the equals sign, which ends the tags", "choose another byte")

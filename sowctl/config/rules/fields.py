"""Rules about the abilities of a message type: fields, enrichment, and unique destinations."""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.config import expression_texts
from sowctl.config.document import ElementNode
from sowctl.config.rules.rule import Problem
from sowctl.config.rules.subjects import is_transient
from sowctl.config.rules.survey import Survey
from sowctl.messages.types import FIELDLESS_TYPES, UNCONSTRUCTIBLE_TYPES

NOT_ENRICHABLE_TYPES = UNCONSTRUCTIBLE_TYPES - {"composite-global"}
"""Types of topics for rule F021; composite-global is excluded, because publishing reports it itself."""


def no_fields(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: Key, HashIndex, Index, Filter, Priority or BarrierExpression for a message type without fields.

    Why: the fields of a binary payload are not known.
    Example: ``<Key>/id</Key>`` in a topic of type binary.
    Instead: let publishers send the key of each message.
    """
    kind = node.find_text("MessageType") or ""
    if survey.types.get(kind) not in FIELDLESS_TYPES:
        return
    for child in node.find_all("Key", "HashIndex", "Index", "Filter", "Priority", "BarrierExpression"):
        message = f"message type {kind} has no fields: {child.tag} is impossible"
        yield Problem(child, message, "remove it; publishers choose the keys of such topics")


def binary_source(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: a View over a topic whose message type has no fields.

    Why: there is nothing to project.
    Example: a View over a binary topic.
    Instead: publish the data in a type with fields.
    """
    from sowctl.config.rules.sources import find_sources

    entry = survey.find_entry(node)
    for source in find_sources(node):
        for found in survey.find_entries(source.name, source.type or entry.type):
            if found is not entry and survey.types.get(found.type) in FIELDLESS_TYPES:
                message = f"message type {found.type} has no fields: '{source.name}' cannot underlie a View"
                yield Problem(source.node, message)


def not_enriched(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: Preprocessing or Enrichment for a message type whose messages cannot be changed.

    Why: binary, protobuf and struct messages cannot be written field by field.
    Example: ``<Enrichment>`` in a protobuf topic.
    Instead: enrich before publishing, or use another type.
    """
    kind = node.find_text("MessageType") or ""
    if survey.types.get(kind) not in NOT_ENRICHABLE_TYPES:
        return
    for child in node.find_all("Preprocessing", "Enrichment"):
        yield Problem(child, f"message type {kind} cannot be enriched", f"remove {child.tag}")


def duplicate_destination(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: two fields of one Projection, Preprocessing or Enrichment with the same destination.

    Why: only one of the values could be kept.
    Example: ``/a AS /x`` and ``/b AS /x``.
    Instead: give each its own destination.
    """
    for section in node.find_all("Projection", "Preprocessing", "Enrichment"):
        first: dict[str, ElementNode] = {}
        for field in section.find_all("Field"):
            definition = expression_texts.parse_definition(field, projection=section.tag == "Projection")
            if definition is None:
                continue
            # A field without AS keeps its own path.
            path = definition.destination or next(iter(expression_texts.find_fields(definition.expression))).path
            if first.setdefault(str(path), field) is not field:
                message = f"duplicate destination {path} in {section.tag} (first at {first[str(path)].place})"
                yield Problem(field, message, "use different destinations")


def lookup_unavailable(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: VALUE_LOOKUP where no Lookup is declared, or in a transient topic that recovers old messages.

    Why: the function reads tables that a module declares, and a recovery would look up today's values for old messages.
    Example: ``VALUE_LOOKUP('desk', /id) AS /desk`` without the module.
    Instead: load the module with its Lookup option; for a transient topic write ``<RecoveryPoint>now</RecoveryPoint>``.
    """
    from sowctl.expressions.syntax.nodes import Call
    from sowctl.expressions.syntax.trees import walk_tree

    declared = any(option.tag == "Lookup" for module in survey.find_nodes("Module") for option in module.walk())
    # A transient topic is rebuilt from the journal at every use (behaviour 1.6).
    recovers = is_transient(node) and (node.find_text("RecoveryPoint") or "epoch").lower() != "now"
    for section in node.find_all("Preprocessing", "Enrichment"):
        for field in section.find_all("Field"):
            definition = expression_texts.parse_definition(field, projection=False)
            for call in walk_tree(definition.expression) if definition is not None else ():
                if isinstance(call, Call) and call.name == "VALUE_LOOKUP" and (recovers or not declared):
                    why = (
                        "in a transient topic unless RecoveryPoint is now" if declared else "without a declared Lookup"
                    )
                    yield Problem(
                        field,
                        f"VALUE_LOOKUP is not possible {why}",
                        None,
                        expression_texts.find_text_place(field, call.span[0]),
                    )


def part_number_missing(node: ElementNode, survey: Survey) -> Iterator[Problem]:
    """What: an identifier that does not begin with the number of a part, for a composite-local message type.

    Why: such a message is a list of parts, and a field belongs to one part.
    Example: ``<Key>/id</Key>`` in a topic of a composite-local type.
    Instead: ``<Key>/0/id</Key>`` for the field of the first part.
    """
    entry = survey.find_entry(node)
    if survey.types.get(entry.type) != "composite-local":
        return
    parts = survey.count_parts(entry.type)
    for owner, path in _iterate_identifiers(node):
        first = str(path).lstrip("/").partition("/")[0]
        if not (first.isascii() and first.isdigit() and len(first) < 6 and (not parts or int(first) < parts)):
            message = f"composite-local identifier must start with the part number: {path}"
            yield Problem(owner, message, f"write /0/... to /{parts - 1}/..." if parts else "write /0/..., /1/...")


def _iterate_identifiers(entry: ElementNode) -> Iterator[tuple[ElementNode, object]]:
    """The fields that an entry uses in messages of its own type, each with the element that contains it."""
    for key in (
        *entry.find_all("Key", "Index"),
        *(key for index in entry.find_all("HashIndex") for key in index.find_all("Key")),
    ):
        yield key, key.text
    # The fields in a view's expressions belong to its sources, which have types of their own.
    if entry.tag in ("View", "ViewDefinition"):
        return
    for text in entry.find_all("Filter", "Priority", "BarrierExpression"):
        yield from ((text, field.path) for field in expression_texts.find_filter_fields(text))
    for section in entry.find_all("Preprocessing", "Enrichment"):
        for field in section.find_all("Field"):
            definition = expression_texts.parse_definition(field, projection=False)
            if definition is not None:
                yield from ((field, found.path) for found in expression_texts.find_fields(definition.expression))

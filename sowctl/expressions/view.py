"""From the texts of a view to its projection: parsed, checked, compiled (``sowctl-expressions(7)``, grouping).

Called for views, aggregated queries and subscriptions, once each; what the projection does with messages is in
:mod:`sowctl.expressions.projection`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sowctl.expressions.check import NO_FUNCTIONS, check
from sowctl.expressions.context import Context
from sowctl.expressions.functions import Function
from sowctl.expressions.projection import Part, Projection
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.errors import expression_error
from sowctl.expressions.syntax.parse import destination_of, parse_grouping, parse_projection
from sowctl.expressions.syntax.trees import walk


def compile_projection(
    projection: str | Sequence[str],
    grouping: str | Sequence[str] | None,
    *,
    joined: bool = False,
    sources: Collection[tuple[str, ...]] = (),
    extra: Mapping[str, Function] = NO_FUNCTIONS,
) -> Projection:
    """Compile a projection and its grouping, each one text or several; ``joined``: every field needs its topic.

    A grouping of None makes one group of all messages.

    ``sources``: the qualifiers that name a source of the view; none given, none is checked. Raises ExpressionError,
    also where there is no grouping.
    """
    fields = [(field, text) for text in _texts(projection) for field in parse_projection(text)]
    grouped = () if grouping is None else _texts(grouping)
    keys = [Part(field, text) for text in grouped for field in parse_grouping(text)]
    seen: set[tuple[str, ...]] = set()
    for field, text in fields:
        check(field.expression, text, Context.PROJECTION, extra)
        names = destination_of(field)
        if names in seen:
            what = f"two fields have the destination /{'/'.join(names)}"
            raise expression_error("SOW-EXP-022", what, text, field.place)
        seen.add(names)
    for node, text in [*((field.expression, text) for field, text in fields), *keys]:
        _check_qualified(node, text, joined, sources)
    return Projection(fields, keys, extra)


def _texts(given: str | Sequence[str]) -> Sequence[str]:
    return [given] if isinstance(given, str) else given or [""]


def _check_qualified(node: n.Node, text: str, joined: bool, sources: Collection[tuple[str, ...]]) -> None:
    for current in walk(node):
        if not isinstance(current, n.Field):
            continue
        if joined and not current.qualifier:
            hint = f"write [topic].{current.path}"
            raise expression_error("SOW-EXP-023", "a field of a join needs its topic", text, current.span[0], hint=hint)
        if current.qualifier and sources and not any(_names(current.qualifier, source) for source in sources):
            what = f"{'.'.join(f'[{name}]' for name in current.qualifier)} is no source of the view"
            raise expression_error("SOW-EXP-028", what, text, current.span[0])


def _names(qualifier: tuple[str, ...], source: tuple[str, ...]) -> bool:
    """Whether a qualifier names a source: the same topic, and the same type where both tell it."""
    return qualifier[-1] == source[-1] and (len(qualifier) < 2 or len(source) < 2 or qualifier == source)

"""Members of messages as SQL columns: SQL names are not empty and not case-sensitive.

A name in the exact case of a member refers to that member, even if another one differs only in case. A statement that
does not distinguish them is rejected: DuckDB would use the first, and number the others.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sowctl.errors import UsageError
from sowctl.values.paths import fold_case

if TYPE_CHECKING:
    import pyarrow

    from sowctl.engine.tables.statement import StatementNames


def select_named_members(table: pyarrow.Table, name: str, names: StatementNames) -> pyarrow.Table:
    """Return the columns of the table ``name`` that a statement can refer to.

    Raises UsageError ``SOW-EXC-023`` if two differ only in case and the statement does not name exactly one of them,
    and for a name, also within an object, that SQL does not support.
    """
    for field in table.schema:
        _refuse_unnamed(name, field)
    left_out: set[str] = set()
    for alike in _group_alike(table.column_names):
        written = {word for word in names.written if fold_case(word) == fold_case(alike[0])}
        if names.columns is None or len(written) != 1 or not written <= set(alike):
            raise _refusal(name, alike)
        left_out.update(set(alike) - written)
    return table.drop_columns(sorted(left_out)) if left_out else table


def _group_alike(names: Iterable[str]) -> list[list[str]]:
    """Return groups of names that are equal in SQL, only those with several names."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(fold_case(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _refusal(table: str, alike: Sequence[str]) -> UsageError:
    shown = " and ".join(map(repr, alike))
    words = f"members {shown} of table {table!r} differ only in case, which SQL ignores"
    hint = f"name one of them instead of *: {_command(alike[0], table)}"
    return UsageError("SOW-EXC-023", words, hint=hint)


def _refuse_unnamed(table: str, field: pyarrow.Field, above: tuple[str, ...] = ()) -> None:
    """Reject names that DuckDB replaces or truncates, and names within objects that it does not distinguish."""
    import pyarrow as pa

    path = (*above, field.name)
    # The items of an array have no name.
    if not field.name or "\0" in field.name:
        what = "an empty name" if not field.name else f"a name with a NUL character, {field.name!r}"
        words = f"table {table!r} has a member with {what}, which SQL does not support"
        if above:
            words += f", in {'/'.join(above)!r}"
        raise UsageError("SOW-EXC-023", words, hint=f"name the required columns instead of *, or use {_query(table)}")
    kind = field.type
    while pa.types.is_list(kind):
        kind = kind.value_type
    if not pa.types.is_struct(kind):
        return
    for inner in kind:
        _refuse_unnamed(table, inner, path)
    for alike in _group_alike(inner.name for inner in kind):
        shown = " and ".join("/".join((*path, one)) for one in alike)
        words = f"members {shown} of table {table!r} differ only in case, which SQL ignores"
        raise UsageError("SOW-EXC-023", words, hint=f"name other columns instead of *, or use {_query(table)}")


def _command(column: str, table: str) -> str:
    names = ('"' + name.replace('"', '""') + '"' for name in (column, table))
    return "sowctl sql " + shlex.quote("SELECT {} FROM {}".format(*names))


def _query(table: str) -> str:
    """Return the command that prints a table's records unchanged; for a history or an instant, just its name."""
    return "sowctl query" + (f" {shlex.quote(table)}" if "@" not in table else "")

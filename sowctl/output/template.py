"""Format ``template``: one text per record, such as ``{sow_key}: {/customer/name} {/price}``.

Braces contain a path or a name of metadata (``options.COLUMN_NAMES``; ``data`` is the whole payload); ``{{`` and ``}}``
are braces; ``\\n \\t \\\\`` have their usual meaning. Null is empty. Each text ends with the delimiter, by default a
line feed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import BinaryIO

from sowctl.errors import UsageError
from sowctl.output.columns import format_cell, open_columns
from sowctl.output.display import escape_line
from sowctl.output.formats import RenderResult
from sowctl.output.options import Column, OutputOptions, parse_column, unescape_text
from sowctl.output.records import Batch

_PART_PATTERN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class TemplateRenderer:
    """See the module. Raises :class:`~sowctl.errors.UsageError` ``SOW-OUT-020`` and ``SOW-OUT-021`` when created."""

    def __init__(self, options: OutputOptions) -> None:
        if options.template is None:
            raise UsageError(
                "SOW-OUT-020",
                "format template requires --template",
                hint="use for example --template '{sow_key} {/price}'",
            )
        self.literals, columns = parse_template(options.template)
        # Rows consist of columns: a template without holes gets one that is not printed.
        self.options = OutputOptions(columns=columns or ("data",), delimiter=options.delimiter)
        self.holes = len(columns)
        self.terminal = options.terminal is not None

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> RenderResult:
        """Write one text per record."""
        columns, rows = open_columns(batches, self.options)
        count = 0
        for row in rows:
            texts = [format_cell(value) or "" for value in columns.read_cells(row)[: self.holes]]
            if self.terminal:
                texts = [escape_line(text) for text in texts]
            # There is one literal more than holes: the last one has no value after it.
            filled = "".join(literal + text for literal, text in zip(self.literals, [*texts, ""], strict=True))
            out.write(filled.encode("utf-8", "surrogateescape") + self.options.delimiter)
            count += 1
        out.flush()
        return RenderResult(count)


def parse_template(text: str) -> tuple[list[str], tuple[Column, ...]]:
    """The literals around the holes (one more than holes), and the holes. Raises UsageError ``SOW-OUT-021``."""
    literals, columns, end = [""], [], 0
    for match in _PART_PATTERN.finditer(text):
        literals[-1] += unescape_text(text[end : match.start()])
        end = match.end()
        if match[0] in ("{{", "}}"):
            literals[-1] += match[0][0]
        elif match[1] is not None:
            columns.append(parse_column(match[1].strip()))
            literals.append("")
        else:
            raise UsageError(
                "SOW-OUT-021",
                f"the template has a single {match[0]} at position {match.start() + 1}",
                hint="double it for a brace: {{ or }}",
            )
    literals[-1] += unescape_text(text[end:])
    return literals, tuple(columns)

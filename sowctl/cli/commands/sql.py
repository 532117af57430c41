"""``sowctl sql``: topics, histories and the journal as tables of SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice
from sowctl.declarations import Argument, declare_option, declare_part
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl sql 'SELECT side, count(*), sum(qty) FROM orders GROUP BY side ORDER BY side'",
    "sowctl sql --format csv 'SELECT o.orderId, c.name FROM orders o JOIN customers c USING (customerId) LIMIT 3'",
    'sowctl sql \'SELECT n.status, count(*) FROM orders n JOIN "orders@2026-01-05T10:00:00Z" b USING (orderId)'
    " WHERE n.status <> b.status GROUP BY 1'",
    "sowctl sql --format ndjson 'SELECT _client, count(*) FROM journal GROUP BY ALL'",
)
COMMON_OPTIONS = ("file", "allow_files", "format", "path")


class SqlArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl sql``."""

    statement: Annotated[
        str | None, Argument("STATEMENT", "SQL statement. Default: read from standard input or --file.")
    ] = None
    file: Annotated[str | None, declare_option("--file", help="Run the statements in FILE.", metavar="FILE")] = None
    allow_files: Annotated[
        bool, declare_option("--allow-files", help="Allow statements to read and write files and to attach databases.")
    ] = False
    output: Annotated[OutputChoice, declare_part("format", "columns", "delimiter", "null", "template", "path", "force")]


def run(invocation: Invocation, arguments: SqlArguments) -> int:
    """Run SQL queries over topics, histories and the journal, with DuckDB (extra sql).

    Topics, views, conflated topics and .sow files are tables; enclose a name in double quotes unless it is a plain
    identifier. "NAME@TIME" is the state as of a time, bookmark or txid; "NAME@history" has all journal entries of a
    topic; journal has all entries of the journal, with the message as JSON in the column payload. Columns are the
    fields of messages; fields of nested objects are written trader.id. Metadata columns are _sow_key, _txid,
    _timestamp, _expiration, _topic, _message_type, _logical_topic, _user_key and _correlation_id; for journal entries
    also _operation, _client, _sequence and _bookmark. For topics, * includes only the metadata columns that the
    statement names. Names are not case-sensitive. If members differ only in case, a column is matched by its exact
    spelling, and a statement that does not choose one, such as SELECT *, is rejected. A topic without records has the
    columns of its messages in the journal.

    Types are those of sowctl export, except that numbers with a fraction are doubles, as in filters. DuckDB adds
    doubles in an order of its own with intermediate rounding, so sum and avg may differ in the last digits from SUM and
    AVG in sowctl query, which round once; sums of integers are exact, even beyond 64 bits. Only the tables and columns
    that a statement names are read, each table once. Columns are read from memo indexes where possible; as with sowctl
    query, indexes are built for fields that are queried repeatedly. In a large topic whose types are known from an
    earlier statement, records that do not match WHERE are not decoded if it compares columns with constants by = < <= >
    >=, IN, BETWEEN or LIKE 'prefix%'; --verbose prints how each table was read. All tables of a statement are read as
    of one instant. For the format of values of each type, see sowctl-types(7). In JSON, NaN, Infinity and -Infinity are
    strings, and intervals use ISO 8601: P1M. Parquet and Arrow reject values that they cannot represent, such as an
    infinite time, with the row and column. For these formats, name the columns in the statement: --columns is refused.

    Stores and journals are never changed: statements can create tables and views in memory, for later statements.
    Files, attached databases and extensions require --allow-files.
    """
    from sowctl.cli.commands.bodies.sql import ResultWriter
    from sowctl.cli.io.sources import STDIN_NAME
    from sowctl.engine.tables.database import Database
    from sowctl.messages.framing.encodings import decode_text

    statement = arguments.statement
    if statement is not None and arguments.file is not None:
        raise UsageError("SOW-CLI-013", "statements are given twice", hint="give STATEMENT or --file, not both")
    if statement is None:
        raw = (
            Path(arguments.file).read_bytes() if arguments.file not in (None, "-") else invocation.streams.stdin.read()
        )
        statement = decode_text(raw, STDIN_NAME if arguments.file in (None, "-") else str(arguments.file))
    results = ResultWriter(invocation, arguments.output)
    with invocation.open_instance() as instance, Database(instance, files=arguments.allow_files) as database:
        results.write(database, statement)
    return 0

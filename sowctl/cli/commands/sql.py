"""``sowctl sql``: topics, histories and the journal as tables of SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import Columns, Delimiter, Force, Format, Null, Output, Template
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl sql 'SELECT side, count(*), sum(qty) FROM orders GROUP BY side ORDER BY side'",
    "sowctl sql --format csv 'SELECT o.orderId, c.name FROM orders o JOIN customers c USING (customerId) LIMIT 3'",
    'sowctl sql \'SELECT n.status, count(*) FROM orders n JOIN "orders@2026-01-05T10:00:00Z" b USING (orderId)'
    " WHERE n.status <> b.status GROUP BY 1'",
    "sowctl sql --format ndjson 'SELECT _client, count(*) FROM journal GROUP BY ALL'",
)
COMMON_OPTIONS = ("file", "allow_files", "format", "output")


def run(
    invocation: Invocation,
    statement: Annotated[str | None, Argument("STATEMENT", "SQL; without it and --file: standard input")] = None,
    file: Annotated[str | None, option("--file", help="run the statements of FILE", metavar="FILE")] = None,
    allow_files: Annotated[
        bool, option("--allow-files", help="let statements read and write files, and attach databases")
    ] = False,
    format: Format = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    null: Null = False,
    template: Template = None,
    output: Output = None,
    force: Force = False,
) -> int:
    """Ask in SQL, with DuckDB (extra sql).

    Tables are topics, views, conflated topics and .sow files by their names, in double quotes where a name is no word;
    "NAME@TIME" is the state as of a time, bookmark or txid, "NAME@history" all entries of the journal for a topic,
    and journal all its entries, with messages as JSON in the column payload. The columns are the fields of messages;
    fields of nested objects are written trader.id. Metadata have columns, too: _sow_key, _txid, _timestamp,
    _expiration, _topic, _message_type, _logical_topic, _user_key, _correlation_id, and of entries _operation, _client,
    _sequence, _bookmark; of a topic, * names those that the statement names itself. Names do not depend on capitals,
    unless messages have members that differ in nothing else: then the one is meant that is written exactly, and a
    statement that does not say which, such as SELECT *, is refused. A topic without records has the columns of the
    messages that the journal has of it.

    Types are those of sowctl export, but numbers with a fraction are doubles, as in filters. DuckDB adds doubles in an
    order of its own and rounds on the way, so that sum and avg of them may differ in the last digits from SUM and AVG
    of query, which round once; a sum of integers is exact, beyond 64 bits too. Only the tables and
    columns that a statement names are read, each table once: memo indexes give columns without a look at the records,
    and are built where fields are asked for again, as by query. Of a large topic whose types an earlier statement has
    seen, records that WHERE refuses are not decoded, where it compares columns with constants by = < <= > >=, IN,
    BETWEEN or LIKE 'begin%'; --verbose tells how each table was read. All tables of one statement are of one instant.
    sowctl-types(7) says for every type how its values are written in each format. In JSON NaN, Infinity and -Infinity
    are texts, and intervals are written as ISO 8601 has them: P1M. Parquet and Arrow refuse a value that they cannot
    hold, such as an infinite time, with its row and column.

    Nothing is written: statements can create tables and views in memory, for those behind them. Files, attached
    databases and extensions need --allow-files.
    """
    from sowctl.cli.commands.bodies.sql import Results
    from sowctl.cli.io.sources import STDIN
    from sowctl.engine.tables.database import Database
    from sowctl.messages.framing.encodings import decode_text

    if statement is not None and file is not None:
        raise UsageError("SOW-CLI-013", "statements are given twice", hint="give STATEMENT or --file, not both")
    if statement is None:
        raw = Path(file).read_bytes() if file not in (None, "-") else invocation.streams.stdin.read()
        statement = decode_text(raw, STDIN if file in (None, "-") else str(file))
    results = Results(invocation, (format, False, columns, delimiter, null, False, template, output, force))
    with invocation.open_instance() as instance, Database(instance, files=allow_files) as database:
        results.write(database, statement)
    return 0

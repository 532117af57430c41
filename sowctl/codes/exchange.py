"""Codes of exchange: formats of columns, ``export``, ``publish --from`` and ``sql``."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-EXC-001": """12 missing package

        Why: The format or command requires a Python package that is not installed.
        Do: Install the extra named in the hint.
        """,
    "SOW-EXC-002": """2 unknown file format

        Why: The format is taken from the end of the file name, which is not the name of a format that can be read or
        written; or the name ends in .gz or .zst, but the format is Parquet, Arrow, SQLite or MessagePack: only text
        formats are compressed.
        Do: Use a name as in the hint.
        """,
    "SOW-EXC-010": """2 rows cannot be converted to messages

        Why: ``--type`` names an unknown column or type, or an option is given for an input of another format; or
        ``--from`` or ``--format`` is combined with an option for messages; or a database has several tables and none
        with the name of the topic; or messages of the topic's type cannot be constructed from columns.
        Do: Change the options as the message says; the types are text, integer, number, boolean and json.
        See: sowctl-publish(1)
        """,
    "SOW-EXC-011": """3 row cannot be converted to a message

        Why: A cell does not have the ``--type`` of its column, the row has more or fewer cells than the header, is not
        UTF-8, or has a value that a message of the topic's type cannot have: a time outside the years 1 to 9999, a map
        with a duplicate key, an object in a flat message, a list in a list where lists are repeated fields.
        Do: Correct the row in the message, give another ``--type`` for the column, or cast the column to text where the
        file is created. ``--on-error skip`` skips such rows.
        See: sowctl-types(7)
        """,
    "SOW-EXC-012": """3 file of rows cannot be read

        Why: The file does not have the format that its name or ``--format`` says, is damaged, has a missing header or a
        duplicate column name, a struct with duplicate fields, or a column of a type that messages do not support. Or a
        partition directory NAME=VALUE above the file has no value, or its name is not UTF-8. Or the file has changes,
        as ``export --changes`` writes them, instead of records.
        Do: Correct the file, rename its columns, or give its format with ``--format``; ``--columns`` names the columns
        of a file without a header. Rename the directory.
        See: sowctl-types(7)
        """,
    "SOW-EXC-013": """2 rows of several topics in one table

        Why: A table such as Parquet, Arrow, SQLite, csv or tsv was requested for several topics, but no column would
        have the topic of each row.
        Do: Write one file for each topic, or add ``--meta``, which includes a column with the topic.
        See: sowctl-export(1)
        """,
    "SOW-EXC-019": """2 no change feed

        Why: ``--changes`` writes what happened to the records of one topic. The target is a file, several topics, a
        view or another derived topic, or a topic without a SOW, or an option selects or orders records in a way that
        changes do not have.
        Do: Name one topic with a SOW and a journal, and remove the option. ``sowctl journal dump`` has the messages of
        a topic without a SOW.
        See: sowctl-export(1)
        """,
    "SOW-EXC-020": """2 statement rejected by DuckDB

        Why: The statement has a syntax error, names an unknown table or column, uses files or settings without
        ``--allow-files``, or failed during execution. The message is DuckDB's.
        Do: Correct the statement. If a table is unknown, the hint lists the tables.
        See: sowctl-sql(1)
        """,
    "SOW-EXC-021": """2 several results for one file

        Why: A file, and a stream of Parquet or Arrow, has the columns of one result, but several statements return
        rows.
        Do: Use only one statement that returns rows; the others can create tables for it.
        See: sowctl-sql(1)
        """,
    "SOW-EXC-022": """3 value of a result is unsupported by the format

        Why: Parquet and Arrow have no infinite dates and times, no time of day 24:00:00, no numbers of more than 38
        digits, and no interval of more than 2^63-1 nanoseconds. The value would be changed. Or this release cannot
        write a type of the result.
        Do: Cast the column in the statement, as shown in the hint, or use a text format.
        See: sowctl-types(7)
        """,
    "SOW-EXC-023": """2 ambiguous or invalid member names for SQL

        Why: Two members of the messages differ only in case, which SQL ignores, and the statement uses both, neither
        exactly as written, or all columns with ``*``. Or the name of a member is empty or contains a NUL character.
        Do: Name the columns, and such a member exactly as in the messages. CREATE TABLE x AS SELECT keeps one of them
        for later statements. ``query`` and ``export`` support such names.
        See: sowctl-types(7)
        """,
    "SOW-EXC-024": """2 column of a table without records

        Why: The columns of a table are the members of its records. This table has no records, and neither the journal
        nor the configuration shows that its messages ever had this member.
        Do: Check the name; the statement works when a record is published.
        See: sowctl-sql(1)
        """,
    "SOW-EXC-025": """3 records do not fit into an SQLite table

        Why: An SQLite table has at most 2,000 columns, its column names must differ in more than case, and must not
        contain a NUL character. The members of the messages exceed these limits.
        Do: Choose columns with ``--columns``, in ``sowctl export`` members with ``--select``, or write Parquet, Arrow
        or NDJSON.
        See: sowctl-types(7)
        """,
    "SOW-EXC-026": """2 topics with one name for files or tables

        Why: Each topic is written to a file or table with its name. SQLite, DuckDB and some file systems ignore case.
        Do: Export these topics separately, to files with other names.
        See: sowctl-export(1)
        """,
    "SOW-EXC-027": """8 table exists

        Why: ``export --add`` adds a table to a database, which has a table with the name of the topic. Nothing was
        changed.
        Do: Use ``--add --overwrite`` to replace the tables of the exported topics; other tables stay.
        See: sowctl-export(1)
        """,
    "SOW-EXC-028": """8 tables cannot be added to a database

        Why: The file is not a database of the format that its name ends in, another program has locked it, or the
        database refused the change. Nothing was changed.
        Do: Export to a new file, or close the other program and try again.
        See: sowctl-export(1)
        """,
    "SOW-EXC-029": """2 table name reserved by SQLite

        Why: A table has the name of its topic, and SQLite reserves names that begin with ``sqlite_``, in upper or lower
        case.
        Do: Export the topic to another format, for example DuckDB, Parquet or NDJSON.
        See: sowctl-export(1)
        """,
}

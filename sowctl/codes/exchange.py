"""Codes of exchange: formats of columns, ``export``, ``publish --from`` and ``sql``."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-EXC-001": """12 a format or command that needs more packages

        Why: It uses a Python package that is not installed.
        Do: Install the extra that the hint names.
        """,
    "SOW-EXC-002": """2 no format of such a file

        Why: The ending of the file's name says the format, and it is none of those that are written or read; or it
        asks to pack a format that is packed already.
        Do: Take one of the endings in the hint.
        """,
    "SOW-EXC-010": """2 rows that cannot become messages as they are asked for

        Why: ``--type`` names no column or no type, goes with a file that says its types itself, ``--from`` is given
        with what reads messages, or the topic's messages cannot be made of columns.
        Do: Follow the message; types are text, integer, number, boolean and json.
        See: sowctl-publish(1)
        """,
    "SOW-EXC-011": """3 a row that makes no message

        Why: A cell does not hold what ``--type`` says of its column, the row has more or fewer cells than the heading,
        is not UTF-8, or a value of the row does not fit a message of the topic's type: a time outside the years 1 to
        9999, a map with a key twice, a list where messages are flat.
        Do: Correct the row that is named, state another type for the column, or cast it to text where the file is made;
        ``--on-error skip`` passes it over.
        See: sowctl-types(7)
        """,
    "SOW-EXC-012": """3 a file of rows that cannot be read

        Why: The file is not of the format that its ending says, is damaged, has no heading that names each column once,
        has two columns or two fields of a struct with one name, or a column of a type that no message can hold.
        Do: Correct the file, name its columns apart, or give it the ending of its format.
        See: sowctl-types(7)
        """,
    "SOW-EXC-013": """2 rows of several topics in one table

        Why: A table of rows, such as Parquet, Arrow, SQLite, csv and tsv, was asked for of several topics, and no
        column would say which topic a row is of.
        Do: Write a file for each topic, or add ``--meta``, which has a column with the topic.
        See: sowctl-export(1)
        """,
    "SOW-EXC-020": """2 a statement that DuckDB refuses

        Why: The statement cannot be read, names a table or column that is not there, asks for files or settings
        without ``--allow-files``, or fails while it runs; the words are DuckDB's.
        Do: Correct the statement. The hint lists the tables where one is missing.
        See: sowctl-sql(1)
        """,
    "SOW-EXC-021": """2 rows of several statements for one file

        Why: A file, and a stream of Parquet or Arrow, has the columns of one result.
        Do: Let one statement have rows; others can create tables for it.
        See: sowctl-sql(1)
        """,
    "SOW-EXC-022": """3 a value of a result that cannot go out as it is

        Why: Parquet and Arrow have no infinite dates and times, no time of day 24:00:00, no numbers of more than 38
        digits, and no interval of more nanoseconds than 64 bits count. The value would become another one. Or the
        result has a type of which this release does not know how its values go out.
        Do: Cast the column in the statement, as the hint does, or take a format of text.
        See: sowctl-types(7)
        """,
    "SOW-EXC-023": """2 members that SQL cannot name

        Why: Two members of the messages differ in capitals alone, which SQL does not tell apart, and the statement asks
        for both, for neither as it is written, or for all columns with ``*``; or a member's name is empty or has a zero
        character in it.
        Do: Name the columns, and one of such members exactly as messages have it. CREATE TABLE x AS SELECT keeps one
        for a later statement. ``query`` and ``export`` keep all members apart.
        See: sowctl-types(7)
        """,
    "SOW-EXC-024": """2 a column of a table that has no records

        Why: The columns of a table are the members of its records. It has none, and neither the journal nor the
        configuration says that its messages had this member.
        Do: Check the name; once a record is published the statement works.
        See: sowctl-sql(1)
        """,
    "SOW-EXC-025": """3 records that a table of SQLite cannot have

        Why: SQLite has at most 2,000 columns, names of columns that differ in more than capitals, and none with a zero
        character in it. The messages have other members.
        Do: Choose members with ``--select``, or export to Parquet, Arrow or NDJSON.
        See: sowctl-types(7)
        """,
}

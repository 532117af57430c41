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
        is not UTF-8, or a value of the row does not fit a message of the topic's type.
        Do: Correct the row that is named, or state another type for the column; ``--on-error skip`` passes it over.
        See: sowctl-publish(1)
        """,
    "SOW-EXC-012": """3 a file of rows that cannot be read

        Why: The file is not of the format that its ending says, is damaged, or has no heading that names each column
        once.
        Do: Correct the file, or give it the ending of its format.
        See: sowctl-publish(1)
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
}

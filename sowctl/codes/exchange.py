"""Codes of exchange: formats of columns, ``export``, ``publish --from`` and ``sql``."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-EXC-001": """4 a format or command that needs more packages

        Why: It uses a Python package that is not installed.
        Do: Install the extra that the hint names.
        """,
    "SOW-EXC-002": """2 no format of such a file

        Why: The ending of the file's name says the format, and it is none of those that are written or read; or it
        asks to pack a format that is packed already.
        Do: Take one of the endings in the hint.
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

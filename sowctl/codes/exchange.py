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
}

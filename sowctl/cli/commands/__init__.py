"""One file per command: ``NAME.py``, of a command of two words ``FIRST_SECOND.py``.

A module has ``run``, the command, and ``EXAMPLES``. What it takes to run one is imported inside ``run``; the larger
bodies are modules of their own, in ``bodies``. ``cli/parsing/table.py`` lists all of them, in the groups of
``sowctl --help``.
"""

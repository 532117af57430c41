"""One module per command: ``NAME.py``, for a command of two words ``FIRST_SECOND.py``.

A module has ``run``, the command, and ``EXAMPLES``. Modules that only ``run`` needs are imported in it; the larger
implementations are in ``bodies``. ``cli/parsing/table.py`` lists all commands, in the groups of
``sowctl --help``.
"""

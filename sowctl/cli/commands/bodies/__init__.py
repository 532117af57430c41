"""Implementations of the larger commands, each imported by the command of its name when it runs.

``publish``, ``eval``, ``doctor`` and ``demo`` are one command's each; ``pipeline`` is that of all ``sowctl pipeline``,
``bookmark`` what all ``sowctl bookmark`` share; ``inspection`` is that of ``schema`` and ``stats``.
"""

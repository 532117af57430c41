"""What the larger commands do, each beside the command of its name, which imports it when it runs.

``publish``, ``eval``, ``doctor`` and ``demo`` are one command's each; ``pipeline`` is that of all ``sowctl pipeline``,
``bookmark`` what all ``sowctl bookmark`` share; ``looking`` is that of ``schema`` and ``stats``.
"""

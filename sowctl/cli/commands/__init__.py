"""One file per command: ``NAME.py``, of a command of two words ``FIRST_SECOND.py``. ``cli/words/table.py`` lists them.

A module has ``run``, the command, and ``EXAMPLES``. What it takes to run one is imported inside ``run``; the larger
bodies are modules of their own, in ``bodies``. In the groups of ``sowctl --help``:

* records: ``publish``, ``query``, ``get``, ``delete``
* history and upkeep: ``replay``, ``expire``, ``history``, ``snapshot``, ``backup``, ``restore``, ``store_*`` (check,
  repair, compact, clean, reindex)
* inspection: ``info``, ``hash``, ``key``, ``check``, ``journal_*`` (list, dump, search, check), ``eval``, ``functions``
* the pipeline on Spark: ``pipeline_*`` (load, rebuild, snapshot, view, export, stream, submit_args)
* configuration: ``validate``, ``lint``, ``config_*`` (show, diff, init, schema)
* sowctl itself: ``doctor``, ``demo``, ``explain``, ``man``, ``completion``
"""

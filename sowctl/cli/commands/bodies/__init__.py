"""Implementations of the larger commands, imported when the command runs.

* ``publish``: ``publish``: progress and the report.
* ``eval``: ``eval``: reading inputs, output, warnings of bad messages.
* ``doctor``: ``doctor``: its checks.
* ``config_add``: all ``config add`` commands.
* ``demo``: ``demo``: its data.
* ``diff``: ``diff`` and ``history --diff``: output and exit status.
* ``fix``: ``lint --fix`` and ``lint --diff``: corrected texts to files, or as a difference.
* ``inspection``: ``schema`` and ``stats``: selection of records, rows of output.
* ``stats``: ``stats``: statistics of fields, and messages of the journal by time.
* ``sql``: ``sql``: output of rows.
* ``subscribe``: ``subscribe`` and ``query --follow``: events to output, control lines from input.
* ``places``: ``subscribe`` and ``export --changes``: the position in a bookmark store.
* ``export_changes``: ``export --changes``.
* ``input_lines``: standard input, read in a thread or line by line.
* ``bookmark``: all ``bookmark`` commands: operands, opening the store, rows of output.
* ``queue``: all ``queue`` commands: handles from operands and standard input, messages about outcomes.
* ``view``: all ``view`` commands: output.
* ``retention``: ``journal`` and ``upkeep`` commands: rules from options, reports, actions as rows.
* ``pipeline``: all ``pipeline`` commands: options, the Spark session, progress, the report.
"""

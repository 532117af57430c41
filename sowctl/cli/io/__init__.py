"""Input of messages, output of records and reports, for all commands.

* ``sources``: files and pipes given on the command line.
* ``key_operands``: keys of records, as operands and from files.
* ``row_files``: options of inputs of rows.
* ``output_sink``: records to the requested format and place.
* ``json_array``: an array with elements written one by one.
* ``rows``: facts about an instance as rows of output.
* ``report_output``: findings and reports of commands.
* ``bulk_load``: updating memo indexes after a bulk load.
"""

"""Files, streams and frames of rows as messages, for publishing and comparing; sowctl-types(7) has the types.

* ``input_formats``: formats of inputs of rows, their options, and how an input was read.
* ``row_inputs``: the one function that opens a file or stream of rows of any of these formats.
* ``partitions``: directories of files, their order, and the partition columns in their paths.
* ``rows``: rows of CSV and TSV files, as texts.
* ``columntypes``: types of their columns, detected from the values.
* ``delimited_source``: their rows as messages.
* ``columnfiles``: rows of Parquet and Arrow files and of data frames.
* ``columnvalues``: values of Arrow columns as members of messages: the table of types of sowctl-types(7).
* ``rowmessages``: rows of typed tables to messages.
* ``table_source``: the rows of a file as a source of messages for publishing.
* ``sqlite_source``: tables of SQLite databases as messages.
* ``msgpack_source``: streams of MessagePack as messages.
* ``json_source``: JSON objects as messages of other types.
"""

"""Messages of any type as Arrow columns, and rows as messages; shared by exchange and the pipeline.

The types of the columns made of messages are those of sowctl-spark(7), MESSAGES. From messages to columns:

* ``inference``: the schema of messages, inferred from them.
* ``evolution``: declared fields, followed by fields found in messages besides.
* ``struct_decoder``: batches of messages to Arrow structs of a declared type.
* ``template_decoder``: the same for JSON messages that match a template.
* ``jsontrees``: one JSON message as a tree of Python values; numbers keep their digits.
* ``jsoncolumns``: JSON values converted to a declared Arrow type one by one.
* ``type_checker``: messages that do not fit a declared type, and why.
* ``arrays``: numbers and bytes of stores and journals as Arrow arrays.
* ``entries``: several journal blocks joined into one set of columns.
* ``column_passes``: blocks of messages to record batches, in bounded memory, while field types are still being found.
* ``field_types``: the types of the fields found so far, and messages as columns of these types.
* ``metadata``: metadata of records as columns.
* ``chosen_columns``: the selection, order and names of output columns.
* ``files``: record batches to Parquet and Arrow files and streams.
* ``tables``: blocks of messages as a table in memory.
* ``sqlite``: record batches to a table of an SQLite database.
* ``sqlite_tables``: tables of several SQLite databases put into one.

From rows to messages:

* ``columnvalues``: values of Arrow columns as members of messages: the table of types of sowctl-types(7).
* ``rowmessages``: rows of typed tables to messages.
* ``message_encoder``: members to messages of each message type.
* ``input_formats``: formats of inputs of rows, their options, and what an input was read as.
* ``rows``: rows of CSV and TSV files.
* ``columntypes``: types of their columns, detected from the values.
* ``delimited_source``: their rows as messages.
* ``columnfiles``: rows of Parquet and Arrow files and of data frames.
* ``table_source``: the rows of a file as a source of messages for publishing.
* ``sqlite_source``: tables of SQLite databases as messages.
* ``msgpack_source``: streams of MessagePack as messages.
* ``json_source``: JSON objects as messages of other types.
* ``row_inputs``: the one function that opens a file or stream of rows of any of these formats.
* ``partitions``: directories of files, their order, and the partition columns in their paths.

For both directions:

* ``requirements``: checks for optional packages, naming the extra to install.
"""

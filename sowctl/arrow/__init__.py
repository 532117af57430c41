"""Messages of any type as Arrow columns, and rows as messages; shared by exchange and the pipeline.

The types of the columns made of messages are those of sowctl-spark(7), MESSAGES. From messages to columns:

* ``inference``: the schema of messages, inferred from them.
* ``evolution``: declared fields, followed by further fields found in messages.
* ``struct_decoder``: batches of messages to Arrow structs of a declared type.
* ``template_decoder``: the same for JSON messages that match a template.
* ``jsontrees``: one JSON message as a tree of Python values; numbers keep their digits.
* ``jsoncolumns``: JSON values converted to a declared Arrow type one by one.
* ``unique_fields``: the proof that no declared field occurs twice in messages.
* ``type_checker``: messages that do not fit a declared type, and the reasons.
* ``arrays``: numbers and bytes of stores and journals as Arrow arrays.
* ``columns``: columns of slot values as Arrow arrays.
* ``entries``: journal blocks joined into one batch, and its columns.
* ``column_passes``: blocks of messages to record batches, in bounded memory, while field types are still being found.
* ``field_types``: the types of the fields found so far, and messages as columns of these types.
* ``metadata``: metadata of records as columns.
* ``chosen_columns``: the selection, order and names of output columns.
* ``files``: record batches to Parquet and Arrow files and streams.
* ``tables``: blocks of messages as a table in memory.
* ``sqlite``: record batches to a table of an SQLite database.
* ``sqlite_tables``: combining tables of several SQLite databases.

From rows to messages:

* ``message_encoder``: members to messages of each message type.
* ``inputs``: files, streams and frames of rows as messages.

For both directions:

* ``requirements``: checks for optional packages, naming the extra to install.
"""

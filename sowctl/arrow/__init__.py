"""Messages of any type as Arrow columns, and rows as messages: what exchange without Spark and the pipeline share.

``inference`` finds the types of messages, ``evolution`` puts them behind declared ones, ``struct_decoder`` makes
structs of whole batches, by way of ``template_decoder`` where they are of few shapes, and of ``rewrite_pattern`` where
they are of one; where a message does not fit at once, ``jsontrees`` reads it with every digit and ``jsoncolumns`` makes
its values fit, one by one; ``type_checker`` says which do not and why. ``arrays`` makes columns of the numbers and
bytes that stores and journals hold beside the payload, ``entries`` of blocks of a journal. ``column_passes`` makes
record batches of blocks of messages, whatever types their fields turn out to have, for ``files``, ``tables`` in memory
and ``sqlite``; ``field_types`` has those types while messages pass, ``metadata`` what stands beside them.

The way back is from rows to messages. ``columnvalues`` is the table of types: what each value of a column becomes
(sowctl-types(7)). ``rowmessages`` makes messages of rows with it, by way of ``message_encoder``, which knows the
message types. ``rows`` reads CSV and TSV, ``columnfiles`` Parquet and Arrow, and ``table_source`` hands the messages of
both to publishing.

``requirements`` names the extra of a package that is missing. The types of the columns made of messages are those of
sowctl-spark(7), MESSAGES.
"""

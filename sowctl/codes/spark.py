"""Codes of the pipeline on Spark, and of the data sources ``sow`` and ``sow-journal``."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-SPK-001": """12 missing packages for Spark

        Why: The command runs on Spark, but its Python packages are not installed.
        Do: Install this package with its extra ``spark``.
        """,
    "SOW-SPK-002": """4 no suitable Java

        Why: Spark requires Java, but no supported version was found in JAVA_HOME, the PATH or the installed package.
        The message lists the places.
        Do: Install the extra ``spark``, which includes Java, or set JAVA_HOME.
        """,
    "SOW-SPK-003": """4 Spark did not start

        Why: Java was found, but Spark failed to start. The excerpt is Spark's own output.
        Do: ``sowctl doctor`` shows which Java is used; ``--verbose`` prints all output of Spark.
        """,
    "SOW-SPK-004": """4 master does not answer

        Why: The ``--master`` address is invalid, or nothing listens on it. Spark itself would wait for minutes.
        Do: Start the master, or name another; ``local[*]`` needs none.
        """,
    "SOW-SPK-010": """2 unknown option of a data source

        Why: The data source has no such option. Unknown options are never ignored.
        Do: Use one of the options in the hint.
        """,
    "SOW-SPK-011": """2 invalid value for an option of a data source

        Why: The option requires a value of another kind.
        Do: Write the value as the message says; a time must be unambiguous.
        """,
    "SOW-SPK-012": """2 exactly one location required

        Why: A data source requires either a path, or a configuration with a topic. Spark does not pass on the options
        of a table that declares columns, or of one that is created from rows (``CREATE TABLE ... AS SELECT``).
        Do: Give one of them. Create a table without columns and without rows, then insert rows.
        """,
    "SOW-SPK-013": """2 missing topic

        Why: The option ``topic`` is missing, or another option requires it.
        Do: Give the option ``topic``.
        """,
    "SOW-SPK-014": """2 journals of several instances

        Why: The directory has journals of several instances, but only one can be read.
        Do: Select one with the option ``instance``.
        """,
    "SOW-SPK-015": """2 unknown column of a data source

        Why: A declared schema has an unknown column, or a known one with another type.
        Do: Use the columns in the hint.
        """,
    "SOW-SPK-016": """2 schema for a binary payload

        Why: ``payloadSchema`` reads the payload as fields, but another option requests its bytes.
        Do: Remove one of them.
        """,
    "SOW-SPK-020": """11 store changed during the query

        Why: Each task reads a part of the store, and all parts must be of the same state, but a writer changed the
        store after the query was planned, and there is no journal with all entries of the planned state.
        Do: Run the query again; with the option ``pin=auto``, its tasks read a copy that never changes.
        """,
    "SOW-SPK-021": """5 checkpoint of another journal

        Why: The checkpoint of the stream is for a journal of another lineage, or is after the end of this journal.
        Do: Restore that journal, or start with another checkpointLocation.
        """,
    "SOW-SPK-022": """10 checkpoint before the oldest journal file

        Why: Journal files that the stream has not read yet were removed.
        Do: Restore them, or continue without them: ``failOnDataLoss=false``.
        """,
    "SOW-SPK-030": """2 rows cannot be converted to messages

        Why: The columns of the DataFrame cannot be converted to messages of the topic: a missing payload, a payload of
        another type, columns beside a payload that would not be written, or columns that messages of this type do not
        support.
        Do: Provide the message of each row in a column ``payload``, or columns that the type supports.
        """,
    "SOW-SPK-031": """2 overwrite with deltas or deletes

        Why: Mode overwrite replaces the records of a topic, so each row must be a publish.
        Do: Use mode append.
        """,
    "SOW-SPK-032": """3 unknown operation in a row

        Why: The operation column of a row has an unknown word.
        Do: Use ``publish``, ``delta`` or ``delete``.
        """,
    "SOW-SPK-033": """2 missing name of a stream

        Why: A stream writes as a publisher, whose name and sequence numbers prevent a repeated batch from being
        published twice.
        Do: Give the option ``queryName``.
        """,
    "SOW-SPK-040": """10 input not found

        Why: A path or pattern of a load matches no file.
        Do: Correct it; quote patterns for the shell.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-041": """2 missing sequence number of a load

        Why: A load by a named client counts as one message with one sequence number, so that repeating it has no
        effect.
        Do: Add ``--sequence``.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-049": """2 unknown order of input files

        Why: Messages of several files are ordered by file. Spark reports only the path of the file of each row, so a
        file that is given twice, or under a path that Spark reports differently, has no position in that order.
        Do: Name each file once, by a plain path.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-042": """2 unknown input format

        Why: The names of the files do not show their format.
        Do: Add ``--input-format``.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-043": """3 null payload

        Why: A row has no message in its column ``payload``.
        Do: Remove such rows, or use ``--on-error skip``.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-044": """2 columns for a message type without fields

        Why: Messages of the topic's type cannot be constructed from columns.
        Do: Provide the message of each row in a column ``payload``.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-045": """3 row cannot be converted to a message

        Why: The values of a row cannot be written in the topic's type.
        Do: Correct the row; the message has the value and the reason.
        See: sowctl-types(7)
        """,
    "SOW-SPK-060": """6 staged file cannot be written

        Why: A task could not write to the staging directory: full disk or missing permission.
        Do: Free space, or give another ``--staging`` directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-SPK-061": """5 incomplete staged file

        Why: A task read other data than another task had written. Nothing was published or replaced.
        Do: Run the job again; if it happens again, check the disk of the staging directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-SPK-062": """2 unsupported option of a rebuild

        Why: ``pipeline rebuild`` builds stores; it neither verifies them nor has a dry run.
        Do: Use ``sowctl replay`` for that.
        See: sowctl-pipeline-rebuild(1)
        """,
    "SOW-SPK-063": """2 unsupported output

        Why: The format is unknown, or a ``.sow`` file was requested in partitions or on another file system.
        Do: Use one of the formats in the hint; write ``.sow`` files to a local path.
        See: sowctl-pipeline(1)
        """,
    "SOW-SPK-064": """8 output exists

        Why: The directory or file of the output exists.
        Do: Name another, or use ``--force``.
        See: sowctl-pipeline(1)
        """,
    "SOW-SPK-065": """2 several topics in one output

        Why: A ``.sow`` file has the records of one topic, and partitions by field require a single topic.
        Do: Export the topics one by one.
        See: sowctl-pipeline-export(1)
        """,
    "SOW-SPK-066": """2 view without sources, or with too many

        Why: A view reads one topic, or the topics of its joins.
        Do: Name one topic, or give ``--join``.
        See: sowctl-pipeline-view(1)
        """,
    "SOW-SPK-067": """2 invalid source of a view

        Why: A source of the view is neither a topic nor a view.
        Do: Name topics or views.
        See: sowctl-pipeline-view(1)
        """,
    "SOW-SPK-068": """2 incomplete definition of a stream

        Why: A stream requires one destination; a checkpoint, unless it only prints entries; and, if it publishes, a
        client and a topic other than its source.
        Do: Add the option in the hint.
        See: sowctl-pipeline-stream(1)
        """,
    "SOW-SPK-069": """2 view of a logical topic

        Why: Views read whole topics, but this is one of the logical topics of a Pattern.
        Do: Name the Pattern topic, and add a filter.
        See: sowctl-pipeline-view(1)
        """,
    "SOW-SPK-070": """6 Spark job failed

        Why: A job failed inside Spark for a reason without a code of its own. Only what was reported as committed was
        committed.
        Do: ``--verbose`` prints all output of Spark.
        See: sowctl-pipeline(1)
        """,
    "SOW-SPK-071": """2 unknown job

        Why: ``pipeline submit-args`` does not know a job with this name.
        Do: Use one of the jobs in the hint.
        See: sowctl-pipeline-submit-args(1)
        """,
    "SOW-SPK-080": """2 unsupported field type

        Why: The declared schema has a field of a type to which no value of a message can be converted.
        Do: Declare the field as STRING, which accepts any value.
        """,
    "SOW-SPK-081": """2 XML message without exactly one root

        Why: An XML message has exactly one root element, but the columns would create none or several.
        Do: Combine them into one column, as shown in the hint.
        """,
    "SOW-SPK-082": """3 message does not match the inferred fields

        Why: The fields were inferred from some messages, but this message has other fields, or values of other types.
        Reading it as NULL would lose data.
        Do: Infer from more messages, or declare the fields. An invalid message matches no fields: ``mode`` decides how
        it is handled.
        """,
    "SOW-SPK-083": """7 too many fields to infer

        Why: The names of members are data, such as ids, so the number of fields grows with the number of messages.
        Do: Declare the fields; declare such an object as ``MAP<STRING, ...>``.
        """,
    "SOW-SPK-096": """2 removed option pushdown

        Why: The option was removed, because Spark used the filters of one scan for others, which missed rows.
        Do: Select rows with the option ``filter``.
        """,
    "SOW-SPK-097": """2 several paths of a stream

        Why: The offset of a stream is a position in one journal.
        Do: Start one stream per path.
        """,
    "SOW-SPK-098": """2 path is not local

        Why: Stores, writable journals and configurations are memory-mapped and locked, which requires local paths.
        Only archived journals, staged files, inputs and outputs may be at URLs.
        Do: Mount the file system, or copy the files to this machine.
        """,
    "SOW-SPK-099": """2 topic saved as a table

        Why: Spark reads a table that was created from rows without the options used to write it. Nothing was written.
        Do: Use ``CREATE TABLE name USING sow OPTIONS (...)``, which stores the options, then ``INSERT INTO`` it.
        """,
    "SOW-SPK-100": """2 journal entries of a logical topic

        Why: In the journal, the entries of logical topics have the name of their Pattern topic.
        Do: Read the Pattern topic with the column ``_logical_topic``, and filter by it.
        """,
    "SOW-SPK-110": """2 write to a part of a topic

        Why: Options such as ``filter`` and ``at`` select records to read; rows cannot be written to a selection.
        Do: Write to the topic itself, or to a table or view without these options.
        """,
    "SOW-SPK-111": """2 damaged table definition

        Why: The options of the table are in the comment of its last column, which was changed.
        Do: Drop the table and create it again. Its records are stored elsewhere and are not affected.
        """,
    "SOW-SPK-112": """2 options of a query on a table

        Why: Spark uses the options of one scan of a table for other scans of the table in the same query.
        Do: Give the options to a temporary view, or to a separate table.
        """,
    "SOW-SPK-113": """2 column not supported in messages

        Why: Messages have no intervals and no geometries, and simple names of members.
        Do: Cast the column to a string, or extract a number from it.
        """,
    "SOW-SPK-114": """2 missing package of the format

        Why: Delta and Iceberg are separate packages that are not part of Spark.
        Do: Name the package in ``spark.jars.packages``, or its file in ``spark.jars``.
        """,
    "SOW-SPK-130": """2 operation with a change feed

        Why: With ``changes=true``, the source returns inserts, updates and deletes; ``operation`` would omit some.
        Do: Remove the option, and filter the rows by ``_change_type``.
        """,
    "SOW-SPK-131": """2 change feed of a topic without records

        Why: A change feed returns the changes of records, but the topic has none: it is only in the TransactionLog.
        Do: Read its entries, without ``changes``.
        """,
    "SOW-SPK-132": """2 ambiguous topic name

        Why: Topics of different message types may have the same name, but a change feed is of one topic.
        Do: Select one with ``messageType``.
        """,
    "SOW-SPK-133": """3 mismatched message with FAILFAST

        Why: Mode FAILFAST stops at the first message that does not match the declared fields.
        Do: Declare the field with its actual type, or use mode PERMISSIVE or DROPMALFORMED.
        """,
    "SOW-SPK-134": """2 conflicting options for mismatched messages

        Why: A mode is given without declared fields, or with an option of another mode, or the column for mismatched
        messages has the name of another column.
        Do: Remove one of the options, as shown in the hint.
        """,
    "SOW-SPK-135": """2 packed environment cannot be used

        Why: With a local master, executors run in the process of the driver and do not unpack an environment; on a
        cluster, the file must exist.
        Do: Remove the option, or name the file created by venv-pack.
        """,
    "SOW-SPK-136": """2 invalid declaration of fields

        Why: With ``mergeSchema``, the declared fields are merged with the other fields of the messages, so they must be
        valid.
        Do: Write names and types, for example ``id BIGINT, trader STRUCT<id: BIGINT>``.
        """,
    "SOW-SPK-140": """2 unsupported scheme of a Delta or Iceberg table

        Why: Delta and Iceberg commit a table through Hadoop, which has no file system for the scheme. Parquet, ORC,
        NDJSON and CSV files, and stores, do not require it.
        Do: Give Spark the jars for the scheme, such as hadoop-aws for s3a, and use that scheme; or write Parquet.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-141": """4 executors do not see the same files

        Why: Before a job starts on a cluster, executors read the first bytes of some files of the instance and a token
        in the staging directory. On the host in the message, a path is missing or is another file: the directory is not
        mounted, or is another copy. Data sources do not check this in advance: their tasks fail if they do not find the
        store or journal that the driver used for planning.
        Do: Put the files of the instance, and the ``--staging`` directory, on a file system that all machines mount at
        the same path. Or use a URL for ``--staging``: then executors need network access and credentials for it, and
        the driver reads the files of the instance that they do not see. A data source reads a journal from its archive
        at a URL, option ``archive``.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-154": """5 compressed input cannot be decompressed

        Why: A file with a name that ends with .gz or .zst is not compressed, is truncated, or was changed. The load
        published nothing.
        Do: Check it with ``gzip -t`` or ``zstd -t``, and copy it again. Rename a file that is not compressed.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-164": """2 field names that differ only in case

        Why: Messages have two fields such as ``qty`` and ``Qty`` in the same object. Spark ignores case in names: a
        query for either would be ambiguous, and no file could have both as columns.
        Do: Declare the required fields with their exact names: ``payloadSchema``, or ``--fields`` of a job. Both can be
        declared in a session with ``spark.sql.caseSensitive=true``.
        """,
    "SOW-SPK-165": """2 mergeSchema without declared fields

        Why: ``mergeSchema`` adds the fields of messages to those declared with ``payloadSchema``. A schema declared
        with ``.schema(...)`` is used unchanged, and messages read as bytes have no fields.
        Do: Declare the fields with ``payloadSchema``, and the columns with ``columns``; or remove ``mergeSchema``.
        """,
    "SOW-SPK-166": """4 executors with another release

        Why: Driver and executors must run the same code. On the host in the message, the package is missing, is another
        release, or has different modules: the packed environment is older than the driver's installation, or the
        machines were not upgraded together.
        Do: Pack the environment of the driver again; or run the job with the command line of
        ``sowctl pipeline submit-args``, which sends the driver's package to the executors.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-167": """2 operation not supported by the data source

        Why: ``sow`` reads states of topics and publishes to them; ``sow-journal`` reads entries, also as a stream. A
        stream of states, and writing rows to a journal directly, are not supported.
        Do: Stream from ``sow-journal``, and write to ``sow``.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-168": """2 option without effect at a URL

        Why: If Spark has no file system for the scheme of an output, the tasks write its files without Spark's writers.
        They support only the options in the hint; others would be ignored.
        Do: Remove the option, or use a value in the hint; or give Spark the jars for the scheme.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-169": """2 time not supported in ORC at a URL

        Why: If Spark has no file system for the scheme of an output, Arrow writes the ORC files. Java readers read its
        times before October 15th, 1582, in another calendar, and fail on instants before 1970 that have a fraction of
        a second. The output was not created.
        Do: Write Parquet, declare the field as STRING, or give Spark the jars for the scheme.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-170": """8 concurrent run for the same output URL

        Why: Two runs write to one URL at the same time, or another program adds or removes files. Stores at URLs have
        no locks, so a run stops if its claim or its files were removed, or if other files were added.
        Do: Run one at a time. ``--force`` replaces the remaining files.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-171": """8 batch of another checkpoint

        Why: A stream publishes under its ``queryName``, and the topic knows by its sequence numbers which checkpoint
        that belongs to. The batch is of another checkpoint, such as a new one after the old one was removed, or it
        is of an old copy of the checkpoint, which has not planned the last batch that was published. If the batch were
        taken for a repetition, its rows would be lost, so it is refused. Nothing of it was written.
        Do: Restore the checkpoint, or choose another ``queryName`` (``--client`` of ``sowctl pipeline stream``). A new
        checkpoint under a new name publishes everything again.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-172": """2 instants that cannot be read together

        Why: ``at`` has several times. They are read by one fold of the journal, which must have all entries of the
        topic, or from the versions of a topic with History. Views, conflated topics and queues are read at one instant.
        Do: Give one instant. Each is then read by itself.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-173": """2 stream that cannot begin with records

        Why: ``start=state`` begins with the records of one topic, and goes on with the entries after them. There are
        none to begin with if no configuration or journal has the topic, or other options exclude them.
        Do: Follow the hint, or use ``start=earliest``.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-174": """10 missing state of a stream

        Why: A stream with ``start=state`` was restarted before it had read all records. Its state is that after the
        entry in the checkpoint, but the topic has changed since, and the journal was pruned. No batch was read.
        Do: Start with another checkpointLocation. The stream begins with the present state, so remove what the old one
        has written, or let the new rows replace it.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-158": """5 missing staged file

        Why: A task wrote a file to the ``--staging`` directory, but it was not found when it was read: another program
        removes files, or the store at a URL lists new files late. The output was not created.
        Do: Run the job again. Check whether the store removes files by age, and exclude this directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-SPK-159": """2 input requires a shared directory

        Why: Spark has no file system for the scheme of the input, and this format is read only from local files. They
        would be downloaded to the staging directory, but it is a URL.
        Do: Give a ``--staging`` directory that driver and executors share, or give Spark the jars for the scheme.
        NDJSON is read at the URL.
        See: sowctl-pipeline(1)
        """,
}

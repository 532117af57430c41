"""The pipeline's jobs: functions of a session, an instance and arguments (``sowctl-pipeline(1)``, ``sowctl-spark(7)``).

A job returns a report. The commands ``sowctl pipeline ...``, programs and notebooks call the same functions. In the
order of processing:

* ``job_table``: the table of jobs; a job exists if it has a line in this table.
* ``limits``: sizes of tasks and of the parts that they write.
* ``inputs``: input files, and splits of them at line breaks.
* ``messages``: conversion of rows of a data set to messages of a topic's type.
* ``load``: the job that loads files into a topic, committed as one group.
* ``stream``: the job that follows the journal and writes to a data set, a function or another topic.
* ``folds``: the last entry of each key, over all parts of a journal.
* ``rebuild``: the job that writes folded records to new stores.
* ``state``: the state of a topic, now or at an instant, in parts for tasks.
* ``view_groups``: joins and groups of a view, computed over parts.
* ``view``: the job that computes a view.
* ``snapshot``: the job that writes the state of a topic at an instant.
* ``export``: the job that writes topics, or a range of the journal.
* ``outputs``: the places and formats of output.
* ``visibility``: a check that executors see the driver's files.
* ``tasks``: running a function once per item on the executors.
* ``progress``: the progress of a job.
* ``report``: the report of a job.
"""

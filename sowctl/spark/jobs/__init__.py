"""The pipeline's jobs: functions of a session, an instance and arguments (``sowctl-pipeline(1)``, ``sowctl-spark(7)``).

A job gives a report, or a DataFrame where its result is data; the commands ``sowctl pipeline ...``, programs and
notebooks call the same functions. In the order in which data passes:

* ``job_table``: the jobs by name; a job exists if it has a line there
* ``limits``: sizes of tasks and of the parts that they leave
* ``inputs``: which files are meant, and pieces of them cut at line breaks
* ``messages``: rows of a data set into messages of a topic's type
* ``load``: the job that brings files into a topic, committed as one group
* ``stream``: the job that follows the journal, to a data set, a function or another topic
* ``folds/``: the last entry of each key, out of all stretches of a journal
* ``rebuild``: the job that puts folded records into new stores
* ``state``: the state of a topic, now or at an instant, in parts that tasks read apart
* ``view_groups``: the joins and groups of a view over parts
* ``view``: the job that computes a view
* ``snapshot``: the job that writes the state of a topic at an instant
* ``export``: the job that writes topics as they are, or a range of the journal
* ``outputs/``: where jobs write, and what
* ``visibility``: whether executors see the files that the driver sees
* ``tasks``: one function per item on the executors
* ``report``: what a job did, and how far it is
"""

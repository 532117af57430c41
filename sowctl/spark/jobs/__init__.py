"""The pipeline's jobs: functions of a session, an instance and arguments (``sowctl-pipeline(1)``, ``sowctl-spark(7)``).

One module per job; :mod:`sowctl.spark.jobs.table` lists them. A job gives a report, or a DataFrame where its result is
data; the commands ``sowctl pipeline ...``, programs and notebooks call the same functions.
"""

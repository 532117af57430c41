"""Outputs of jobs: data sets and stores, and their places (``sowctl-pipeline(1)``, OUTPUT).

* ``output_spec``: the place, format and parts of an output.
* ``lakes``: Delta and Iceberg, if their packages are installed.
* ``datasets``: records as rows of Parquet, ORC, NDJSON, CSV and lake tables.
* ``storefile``: records as one ``.sow`` file.
* ``topics``: the state of one topic as a data set or store, while publishing continues.
* ``partfiles``: Parquet, ORC and text files that tasks write without Spark's writers.
* ``remote_datasets``: data sets at URLs that Spark does not support: tasks write them, the driver commits them.
* ``delivery``: detection of URLs that Spark supports; uploads of stores and downloads of inputs.
"""

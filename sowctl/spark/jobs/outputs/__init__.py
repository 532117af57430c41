"""Outputs of jobs: data sets and stores, and where they lie (``sowctl-pipeline(1)``, OUTPUT).

* ``output_spec``: where a job writes, in which format, of which parts
* ``lakes``: Delta and Iceberg, where their packages are there
* ``datasets``: records as rows of Parquet, ORC, NDJSON, CSV and tables of lakes
* ``storefile``: records as one ``.sow`` file
* ``partfiles``: files of Parquet, ORC and lines as tasks write them without Spark's writers
* ``remote_datasets``: data sets at URLs that Spark itself does not know: tasks write them, the driver puts them in
  place
* ``delivery``: which URLs Spark knows; stores that are sent to URLs, and inputs that are fetched from there
"""

"""What jobs write, and where to (``sowctl-pipeline(1)``, OUTPUT).

* ``place``: where a job writes, in which format, of which parts
* ``lakes``: Delta and Iceberg, where their packages are there
* ``datasets``: records as rows of Parquet, ORC, NDJSON, CSV and tables of lakes
* ``storefile``: records as one ``.sow`` file
* ``partfiles``: files of Parquet, ORC and lines as tasks write them without Spark's writers
* ``sending``: data sets at URLs that Spark itself does not know: tasks write them, the driver puts them in place
* ``delivery``: which URLs Spark knows; stores that are sent to URLs, and inputs that are fetched from there
"""

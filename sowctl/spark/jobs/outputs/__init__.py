"""What jobs write, and where to (``sowctl-pipeline(1)``, OUTPUT).

* ``place``: where a job writes, in which format, of which parts
* ``lakes``: Delta and Iceberg, where their packages are there
* ``datasets``: records as rows of Parquet, ORC, NDJSON, CSV and tables of lakes
* ``storefile``: records as one ``.sow`` file
* ``delivery``: files to and from URLs that Spark itself does not know
"""

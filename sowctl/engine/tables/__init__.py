"""Topics, past states, histories and the journal as tables of DuckDB, for ``sowctl sql``.

* ``statement``: the tables and columns that a statement names.
* ``where``: the WHERE of a statement as a filter.
* ``table_names``: the meaning of a table name.
* ``types``: the types of a topic's columns, cached between statements.
* ``index_columns``: columns read from memo indexes instead of records.
* ``topic``: the records of a target as a table.
* ``journal``: entries of the journal as a table: of all topics, or the history of one.
* ``members``: which members of messages can be SQL columns.
* ``results``: values of DuckDB types in each output format.
* ``duckdb_file``: adding tables of an export to a DuckDB database file.
* ``database``: running statements on the tables and columns that they name.
"""

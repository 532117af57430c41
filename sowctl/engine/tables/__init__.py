"""Topics, states of the past, histories and the journal as tables of DuckDB: what ``sowctl sql`` asks.

* ``statement``: what a statement names: tables, columns, whether it asks for all of them
* ``where``: what its WHERE asks of a table, as a filter of ours
* ``table_names``: what the name of a table stands for; the columns of a table without records
* ``types``: types of columns, kept from one statement to the next
* ``index_columns``: columns of memo indexes, without a look at the records
* ``topic``: the records of a target, now or at an instant: all of them, or those that a filter takes
* ``journal``: entries of the journal, of all topics or of one, which is its history
* ``members``: which members of messages can be columns of SQL
* ``results``: what a value of each type of DuckDB is in each format
* ``database``: statements, run one after the other over just the tables and columns that they name
"""

"""Topics, states of the past, histories and the journal as tables of DuckDB: what ``sowctl sql`` asks.

* ``statement``: what a statement names: tables, columns, whether it asks for all of them
* ``indexed``: columns of memo indexes, without a look at the records
* ``topic``: the records of a target, now or at an instant
* ``journal``: entries of the journal, of all topics or of one, which is its history
* ``database``: statements, run one after the other over just the tables and columns that they name
"""

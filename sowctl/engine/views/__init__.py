"""Views: messages made of the records of topics, by joins, filter and grouping (``behaviour`` 5.1, 5.2).

In the order of processing:

* ``openers``: opening the source of any target, derived or not.
* ``instant``: all topics that a view reads, at one instant.
* ``definition``: a view, compiled: its sources, joins and projection.
* ``records``: the records of a source that the view reads.
* ``joins``: the joined rows of a view.
* ``groups``: from the rows of a group to its message.
* ``computation``: computing a whole view from all records of its sources.
* ``column_groups``: joins and groups of many rows at once, by columns.
* ``group_spill``: groups that exceed memory while a view is computed.
* ``gc_pause``: pausing Python's garbage collector during a computation.
* ``view``: a view as a source: from its cache, or computed.
* ``cache``: the path and the meta record of a view's cache (sow-view(5)).
* ``cache_refresh``: a cache at an instant: as it is, caught up, or rebuilt.
* ``costs``: when to catch up, when to compute everything, when to keep rows.
* ``limits``: the figures of costs, and of what is held at a time.
* ``incremental``: changed records applied to the rows, groups and messages of a cache.
* ``cache_build``: a cache built from all records.
* ``cache_tables``: the tables of a cache: rows, groups, records of joins.
* ``conflation``: conflated topics.
"""

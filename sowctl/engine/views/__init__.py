"""Views: messages computed from the records of topics by joins, filter and grouping (``behaviour`` 5.1, 5.2).

In the order of processing:

* ``openers``: opening the source of any target, derived or not.
* ``instant``: opening all topics that a view reads as of one instant.
* ``definition``: a compiled view: its sources, joins and projection.
* ``records``: the records of a source that the view reads.
* ``joins``: the joined rows of a view.
* ``groups``: the groups of rows, and their messages.
* ``computation``: computing a view from all records of its sources.
* ``column_groups``: joins and groups of many rows, by columns.
* ``gc_pause``: pausing Python's garbage collector during a computation.
* ``view``: a view as a source: from its cache, or computed.
* ``cache``: the path and the meta record of a view's cache (sow-view(5)).
* ``cache_refresh``: reusing, refreshing or rebuilding a cache.
* ``cache_build``: writing messages into a new cache, and its column files.
* ``column_file``: the format of column files.
* ``stored_columns``: the columns of a source: a base file, and the records that changed since.
* ``column_refresh``: finding and computing the affected groups by columns.
* ``limits``: thresholds of refreshes, and memory bounds.
* ``conflation``: conflated topics.
"""

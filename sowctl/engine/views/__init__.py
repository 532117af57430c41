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
* ``gc_pause``: pausing Python's garbage collector during a computation.
* ``view``: a view as a source: from its cache, or computed.
* ``cache``: the path and the meta record of a view's cache (sow-view(5)).
* ``cache_refresh``: a cache at an instant: as it is, caught up, or rebuilt.
* ``cache_build``: messages written into a new cache, and the files of its columns.
* ``column_file``: the format of files of columns.
* ``stored_columns``: the columns of a source: a file, and the records that changed since.
* ``column_refresh``: the affected groups, found and computed by columns.
* ``limits``: the figures of refreshes, and of what is held at a time.
* ``conflation``: conflated topics.
"""

"""The figures that decide how a query reads, in one table, each with the measurement behind it.

Measured with 300,000 JSON records of 160 bytes on one processor of a small machine, where nothing else is said. Plans
(:mod:`sowctl.engine.search.plan`) and what executes them ask here by the module's name, so that a test can set a
figure. None asks what a process has loaded or done before.
"""

from __future__ import annotations

from sowctl.engine import options

# Which way is taken.

INDEXED = options.INDEXED
"""Records of a store from which on memo indexes are used and built; the default of an option."""
MOST = 0.3
"""Where an index leaves more than this share of the records, all of them are read in order."""
FIRST = 10_000
"""So many first records of an order are looked for by an index of it; for more, all that match are sorted."""
LARGE = 150_000
"""Records of a store from which on a second process filters half of them."""
PROCESSES = 2
"""Processes that read a large store unless the options say how many."""
MOST_PROCESSES = 64
"""Processes that read a large store, at most: each keeps the results of its part in a file."""

# How indexes are used.

ARRAYS = 600_000
"""Row numbers from which on arrays of numpy are worth loading it; below, lists of Python."""
LASTING_ARRAYS = 256
"""The same in a program that asks again and again, which has loaded it soon."""
GAIN = 8
"""How many times the time for a row number a group takes: so many fewer rows are worth loading numpy for."""
CHANGED_SHARE = 16
"""Where more than one record in so many has changed since indexes were built, they are built anew."""
CHANGED = 4096
"""Changed records that never make indexes be built anew."""
SEVERAL = 256
"""Row numbers from which on their keys and offsets are taken out of an index together."""

# How a scan filters.

LOOKING = 4_000
"""Records from which on looking for what a filter needs spares more time than loading what looks."""
SHARE = 0.75
"""Looking for something is given up where more of the records than this share have it."""
AGAIN = 0.5
"""Where less than this share of the records can still match, these are joined again and searched alone."""
ENOUGH = 1000
"""Records after which :data:`SHARE` is judged."""
WORDS = 6
"""Alternatives that are looked for at most: one of so many takes 0.4 microseconds a record, decoding it 0.5."""

# Batches: what is made of so many records stays in the processor's caches.

READ = 400
"""Records that a scan reads and searches at a time."""
DECODED = 400
"""Records decoded at a time, where only some of those read may match."""
PICKED = 800
"""Records read at a time where indexes alone say which ones match."""
LOOKED_UP = 400
"""Changed records looked up at a time."""

"""Conflated topics: messages of a topic or view that change once in an interval (``behaviour`` 5.3).

In the order in which data passes:

``timeline``          what happened to a topic, in the order of time
``rowchanges``        how the rows of a view changed as time went
``source_changes``    the changes of whatever a conflated topic copies
``conflation_rule``   the rule of conflation, from changes to changes
``outputs``           what a conflated topic makes of the messages that it shows
``state_tables``      what a kept state says of itself; ``source_digests``: a source that no journal records
``conflation_store``  the kept state, advanced to the clock (sow-view(5))
``conflated_source``  a conflated topic as a source: from its kept state, or computed
"""

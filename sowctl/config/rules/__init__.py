"""The rules that look at more than one value, grouped by element; :mod:`sowctl.config.rules.table` lists them.

Names, multiplicity, types and ranges are not here: those come from the element table.

* ``rule``: what a rule is, how it is written, documented, tested and run.
* ``table``, ``table_advice``: the rows of all rules; those of advice stand in the second.
* ``survey``: one look over a configuration, which every rule is given. Of it: ``subjects`` (the nodes that rules are
  about), ``sources`` (what views and conflated topics derive from), ``facts`` (what comments of the file say about
  messages and machine), ``measures`` (intervals, sizes, counts and switches), ``globs`` (files that a Pattern covers).
* Rules by element, errors first: ``topic``, ``fields``, ``derived`` (views, conflated topics), ``queue``, ``service``
  (transaction log, logging, admin), ``messagetypes``, ``transport``, ``replication``, ``actions``, ``targets`` (what
  actions refer to), ``references`` (names that refer to something), ``spellings`` (retired and insecure values).
* ``advice_*``: rules of what is allowed and probably not meant, by what they are about: ``topic``, ``storage``,
  ``view``, ``queue``, ``journal``, ``service``, ``network``, ``actions``, ``schedule``, ``instance`` (all the rest).
* ``load_rules``: the rules at which a command stops when it loads a configuration.
* ``pages``: how a rule's page is read, and the pages of rules that have no function to bear them.
"""

"""The rules about more than one value, grouped by element; :mod:`sowctl.config.rules.table` lists them.

Names, multiplicity, types and ranges are not here: those come from the element table.

* ``rule``: a rule: its row, its page, its tests, and running its checks.
* ``table``: the rows of errors and warnings.
* ``table_advice``: the rows of advice.
* ``survey``: a configuration prepared for the rules: entries, journal, names. It is built from the next five:
* ``subjects``: the nodes that rules are about.
* ``sources``: the topics that views and conflated topics derive from, and their rules.
* ``facts``: facts about messages and machine that comments of the file state.
* ``measures``: intervals, sizes, counts and switches of elements.
* ``globs``: files that match the Pattern of an action.
* ``load_rules``: the rules that stop a command when it loads a configuration.
* ``pages``: reading the pages of rules, and the pages of rules without a function.

Rules of errors and warnings by element:

* ``topic``: SOW/Topic.
* ``fields``: the fields that message types have.
* ``view``: View and ConflatedTopic.
* ``queue``: queues.
* ``service``: TransactionLog, Logging, Admin.
* ``messagetypes``: MessageType.
* ``transport``: Transport.
* ``replication``: Destination.
* ``actions``: Actions.
* ``targets``: topics, transports, queues and directories that actions refer to.
* ``references``: names that refer to something.
* ``spellings``: retired and insecure values.

Rules of advice, for values that are allowed and probably not meant, by subject:

* ``advice_topic``: name, file and durability of a topic.
* ``advice_storage``: storage of a topic.
* ``advice_view``: views.
* ``advice_queue``: queues.
* ``advice_journal``: the transaction log.
* ``advice_service``: Logging and Admin.
* ``advice_network``: transports, replication, slow clients.
* ``advice_actions``: what actions do.
* ``advice_schedule``: when actions run.
* ``advice_instance``: the instance as a whole.
"""

"""The elements of the configuration as data (``sow-config(5)``): names, values, defaults, and where each may occur.

* ``element``: the class of a row of the table.
* ``instance``: the rows of AMPSConfig, with those of the sections below.
* ``sow``: the rows of SOW.
* ``journal``: the rows of TransactionLog.
* ``connections``: the rows of Transports, Protocols, MessageTypes, Modules, security and functions.
* ``operations``: the rows of Admin, Logging, Actions, Replication, Tuning and Externals.
* ``modules``: the modules of actions and their options.
* ``descriptions``: the sentence that describes each row.
* ``parent_paths``: the parents that an element can have, for parts of a configuration.
"""

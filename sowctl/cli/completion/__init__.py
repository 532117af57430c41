"""Completion of a command line: one answer for bash, zsh, fish and the shell of this program.

* ``candidates``: the words of a line and the one that is being written, to what completes it.
* ``filters``: the same within a filter or a list of fields, from the records of the topic that the line names.
* ``instance_values``: what a configuration and its stores have: names, fields, values, keys.
* ``scripts``: the scripts that ask, one for each shell.
"""

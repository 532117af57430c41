"""Completion of a command line for bash, zsh, fish and the shell of this program.

* ``candidates``: candidates for the current word of a command line.
* ``filters``: candidates within a filter, a list of fields or an option text.
* ``instance_values``: names, fields, values and keys from a configuration and its stores.
* ``scripts``: the completion scripts of bash, zsh and fish.
"""

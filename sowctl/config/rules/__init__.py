"""The rules that look at more than one value, grouped by element; :mod:`sowctl.config.rules.table` lists them.

Names, multiplicity, types and ranges are not here: those come from the element table.
"""

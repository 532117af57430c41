"""Aggregate functions: one accumulator class for each function (``sowctl-expressions(7)``, aggregates).

* ``accumulator``: the operations of every accumulator.
* ``extremes``: extremes and distinct values of sets of scalars.
* ``sums``: COUNT, SUM, AVG and deviations: exact sums.
* ``inputsets``: MIN, MAX, UNIQUE, GROUP_CONCAT and COUNT_DISTINCT: distinct inputs with counts.
* ``latest``: ANY: the input with the highest stamp.
* ``table``: all aggregate functions; a new function is a row of it and a class.
"""

"""Extensions by a configuration's Modules and UserDefinedFunctions. In the order in which data passes:

* ``plugins``: the modules of a configuration, and the Python entry points that stand in for their libraries.
* ``functions``: the functions that modules add to the expression language, made when an expression asks for one.
* ``lookups``: VALUE_LOOKUP, a field of another topic's record.
"""

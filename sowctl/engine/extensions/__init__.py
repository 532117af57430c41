"""Extensions by a configuration's Modules and UserDefinedFunctions. In the order of processing:

* ``plugins``: the modules of a configuration, and the Python entry points that replace their libraries.
* ``functions``: the functions that modules add to the expression language, made when an expression first uses one.
* ``lookups``: VALUE_LOOKUP, which returns a field of another topic's record.
"""

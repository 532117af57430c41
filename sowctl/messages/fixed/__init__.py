"""Types without field names in the message: binary and struct.

* ``binary``: any bytes, no fields.
* ``struct``: values at fixed offsets.
* ``layout``: the offsets of the fields of a definition.
"""

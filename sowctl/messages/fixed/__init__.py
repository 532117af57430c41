"""Types without names in the message: binary and struct.

* ``binary``: any bytes, no fields; ``struct``: values at fixed places; ``layout``: the places that a definition lists
"""

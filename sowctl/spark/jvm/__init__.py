"""The Java virtual machine of a session: ``java`` finds one, ``machine`` starts and ends it, ``masters`` reads the name
of the cluster that it is to work on.
"""

"""The Java virtual machine of a session: ``java`` finds one, ``machine`` makes the home that Spark is started from and
starts and ends it, ``masters`` reads the name of the cluster that it is to work on, ``packed_environment`` ships an
environment there.
"""

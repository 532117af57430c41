"""The Java virtual machine of a session: ``java`` finds one, ``sparkhome`` makes the home that Spark is started from,
``machine`` starts and ends it, ``masters`` reads the name of the cluster that it is to work on.
"""

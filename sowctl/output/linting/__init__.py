"""Findings to bytes for people and programs:

* ``formats``: the table of formats; a format exists if it has a line there
* ``plain``: findings for people, and as JSON lines; the count
* ``github``: findings as workflow commands
* ``sarif``: findings as a SARIF log
* ``junit``: findings as the failures of a test report
* ``gitlab``: findings as a code quality report
"""

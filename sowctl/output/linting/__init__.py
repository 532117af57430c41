"""Format findings for people and programs.

* ``formats``: the table of formats.
* ``plain``: text for people, and JSON lines.
* ``github``: workflow commands of GitHub Actions.
* ``sarif``: a SARIF log.
* ``junit``: a JUnit report.
* ``gitlab``: a code quality report of GitLab.
"""

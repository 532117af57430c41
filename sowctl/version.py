"""The version of this program, as a constant: reading it from installed metadata costs 30 ms at start-up."""

VERSION = "0.1.0"
RELEASE_DATE = "2026-11-20"
"""The day of the release; generated manual pages contain it, so that they do not change from day to day."""

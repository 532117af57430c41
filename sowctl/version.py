"""The release of this program, as a constant: reading it from installed metadata costs 30 ms at start-up."""

VERSION = "0.1.0"

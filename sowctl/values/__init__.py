"""What a field value is: paths, comparison, NULL, order, times, units. Knows no file and no message type."""

"""One file a format: from a record's bytes to values. No format may fail on any bytes."""

"""Events that come over HTTP, on their way into the log, which is all that is written."""

"""Events that arrive over HTTP, on their way into the log; nothing else is written."""

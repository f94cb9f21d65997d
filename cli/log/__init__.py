"""Records into the log, out of it and back: generate, feed, archive, export, import, replay, quarantine."""

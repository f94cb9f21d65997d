"""Records into the log, out of it and back: generate, feed, archive, adopt, export, import, replay, quarantine."""

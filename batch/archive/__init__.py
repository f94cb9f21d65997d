"""Copy the log into the archive and decode it into events and quarantine. Only `forget` deletes a record of the archive."""

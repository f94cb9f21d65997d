"""Copy the log into the archive and decode it into events and quarantine. No command deletes a record of the archive."""

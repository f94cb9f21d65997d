"""What the log had and what of it is archived: positions, archive runs, gaps, retention. Records are only appended."""

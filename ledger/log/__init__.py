"""What the log held and what of it is archived: positions, archive runs, gaps, retention. These records are only appended."""

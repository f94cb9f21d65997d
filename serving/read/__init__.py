"""From tables to an answer: pin a snapshot, read states, merge and present them, and say how exact the rows are. Reads only."""

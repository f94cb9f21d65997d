"""Programs of the comparison: the jobs, and the recomputes of both systems."""

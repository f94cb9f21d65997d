"""Compare two computations of a view, and try the laws on random events."""

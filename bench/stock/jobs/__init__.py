"""What is run as a program of its own: the jobs that are compared, and the recomputes of both systems."""

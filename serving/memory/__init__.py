"""Views in memory: immutable layers of sorted states with their answers, which a look-up reads in microseconds."""

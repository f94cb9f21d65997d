"""Views in memory: immutable layers of sorted states with their answers, where a lookup takes microseconds."""

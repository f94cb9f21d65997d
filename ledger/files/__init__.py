"""Which part of the log each file of a table holds, slices for tasks, and reading a slice in a task. It knows no Spark."""

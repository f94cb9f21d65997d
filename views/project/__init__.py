"""A project's folder: import its modules apart from the process, find its sources and views, and name the place of an error."""

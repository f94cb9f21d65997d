"""Erase records from the archive, the decoded tables, the views and all files that had them, and prove it."""

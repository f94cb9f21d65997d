"""A project as data, and a project made from such data without its code. Raise FORMAT when a document could differ."""

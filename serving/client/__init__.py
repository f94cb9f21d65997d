"""A program's client of a server over HTTP, without the parts that answer."""

"""Code of a project: run by one confined process for each release, never by the server."""

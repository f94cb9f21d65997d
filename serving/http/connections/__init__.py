"""Below requests: which connections a server accepts and keeps, and their bounds. No module here knows a route."""

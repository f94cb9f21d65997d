"""Sinks: a view's rows kept in a table or topic elsewhere, up to a token that is stored with them."""

"""Who may do what: the principal that a bearer token names, its verbs, views and rows, and its share of the server.

Nothing here knows HTTP. A request without a token has no right.
"""

"""Who may: what a bearer token names, which verbs, views and rows it has, and how much of the server it may use.

Nothing here knows HTTP; nobody who shows nothing may anything.
"""

"""Access logs in the format that a server declares: a file for each kind of server, and the layout that all share."""

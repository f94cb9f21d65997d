"""Projects to copy, and the traffic that their generators share."""

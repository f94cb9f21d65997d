"""`tandem bench growth`: what a recompute costs with more events, more views and more keys."""

"""What numbers mean: events, sources and views, and the pure functions that compute every answer."""

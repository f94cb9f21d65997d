"""Questions, the lanes whose threads answer them beside the event loop, and the cache of answers for later pages."""

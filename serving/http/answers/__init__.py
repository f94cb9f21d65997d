"""Work out what a question asks, in threads beside the event loop, and keep the answers for whoever pages on."""

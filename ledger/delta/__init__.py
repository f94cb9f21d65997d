"""Delta tables through delta-rs: addresses, conditional commits, small journals, locks. Nothing here knows a log or a release."""

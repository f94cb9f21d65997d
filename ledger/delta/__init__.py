"""Delta tables through delta-rs: addresses, conditional commits, small journals, locks. It knows no log and no release."""

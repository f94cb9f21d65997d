"""Which release, batch versions and cuts are live or ready, and what is known of each. Records are appended, never changed."""

"""Which release, batch versions and cuts are live or ready, and facts about each. Records are appended, never changed."""

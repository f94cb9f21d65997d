"""Settings of every test."""

from hypothesis import settings

# A shared machine may be slow at any moment, and the first call of a library loads it: no deadline for one example.
settings.register_profile("tandem", deadline=None, print_blob=True)
settings.load_profile("tandem")

"""`tandem bench scale`: what more executors gain, and what many keys of a micro-batch cost."""

"""`rehearse`: what a release would have answered at checkpoints of the past, beside the live one."""

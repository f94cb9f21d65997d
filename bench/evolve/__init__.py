"""The cost of change: an incremental recompute compared with a full one, and a new release beside the live one."""

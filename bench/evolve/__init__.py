"""What it costs when code and history go on: an incremental recompute beside a full one, a new release beside the live one."""

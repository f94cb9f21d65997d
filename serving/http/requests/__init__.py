"""What every request passes before its route: middleware, gate, limits, audit log, and the parts that requests share."""

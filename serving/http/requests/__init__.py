"""What every request passes before its route: middleware, gate, limits, audit log; and what requests share."""

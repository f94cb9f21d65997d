"""What operators see of each part of the platform, for `status`, `doctor`, `metrics` and the server. It only reads."""

"""The state of each part of the platform, as documents for `status`, HTTP and metrics. It only reads."""

"""How far each part of the platform has come, as documents for `status`, HTTP and metrics. It only reads."""

"""Alerts: what a view says of a condition, told once when it begins and once when it ends or was never so."""

"""Measures of events in order: how far users get, how often a pattern occurs, which events follow others in time."""

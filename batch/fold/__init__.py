"""Fold events into states in Spark tasks, without duplicates. These modules write files and commit no table."""

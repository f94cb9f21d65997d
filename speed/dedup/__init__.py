"""Drops duplicates in the speed layer: identities as keys, the window of counted identities, duplicates across tasks.

Pure: no Spark, no tables, no clock.
"""

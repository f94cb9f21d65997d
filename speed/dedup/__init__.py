"""Where the speed layer drops duplicates: identities as keys, those counted lately, and what no single task can see. Pure: no
Spark, no tables, no clock.
"""

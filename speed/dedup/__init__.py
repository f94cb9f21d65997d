"""Where the speed layer drops duplicates: identities as keys, the window of counted identities, duplicates across tasks. Pure:
no Spark, no tables, no clock.
"""

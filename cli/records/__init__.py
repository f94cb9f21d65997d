"""Files and standard input as records: lines, bundles, keys, a growing file, and a generator's expected answers.

Nothing here sends a record or writes a table.
"""

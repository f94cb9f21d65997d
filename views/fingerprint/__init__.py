"""The meaning of a definition as a tree, its hash (the fingerprint), and the differences between two definitions.

tests/views/golden.json records fingerprints of the examples: a change there needs a reason.
"""

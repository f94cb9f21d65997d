"""The hashed locks of every package and jar, and the environments built from them. Edit pyproject.toml or ivy.xml, never a lock:
`python -m tandem.infra.locks.write_inputs` writes the inputs, whose first lines give the command that compiles the lock.
"""

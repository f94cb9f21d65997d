"""How Tandem's own costs grow: a trigger's with the number of views, a recompute's memory with the number of keys."""

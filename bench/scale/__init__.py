"""The growth of Tandem's costs: of a trigger with the number of views, of a recompute's memory with the number of keys."""

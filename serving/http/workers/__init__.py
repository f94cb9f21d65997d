"""Several processes that answer at one address: their parts of the limits, and what one worker asks of another."""

"""A Spark session that stays between batch commands: its owner, a part of `up`, and the commands that use it by turns."""

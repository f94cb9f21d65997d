"""Plan, build, audit and publish batch views up to a new cut."""

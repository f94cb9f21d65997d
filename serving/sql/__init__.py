"""Foreign SQL over the merged views: each statement in a process of its own, which has only the views that it may read."""

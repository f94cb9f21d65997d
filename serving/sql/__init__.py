"""Foreign SQL over the merged views: each statement in a process of its own, which has nothing but the views it may read."""

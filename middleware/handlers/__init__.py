"""What requests mean: their arguments for the procedures, and the procedures' rows as answers."""

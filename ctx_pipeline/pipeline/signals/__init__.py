"""What the signal stage asks of other rooms, and signals of a person's own."""

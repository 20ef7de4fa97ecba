"""Finding the messages of a conversation that mean what is asked."""

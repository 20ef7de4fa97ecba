"""Ways to say a file with fewer tokens, what each keeps, and what measuring them finds."""

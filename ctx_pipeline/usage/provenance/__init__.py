"""What a number of usage is made of, down to the bytes it was read from, and why another tool has another one."""

"""What a process is, waits for and does without: who holds something, who waits, when the collector rests."""

"""What signals share: runs, steps, context timelines and the person's words."""

"""Files in fewer tokens: forms, their cost and what they keep."""

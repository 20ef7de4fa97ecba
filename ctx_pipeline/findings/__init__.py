"""What a person should look at in their own history: one set of rules for every surface."""

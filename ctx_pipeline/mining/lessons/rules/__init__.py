"""What a person laid down for the work: forms of sentences, languages, rules files, and how long an order holds."""

"""What machines of a team share: objects and Delta tables in a bucket or a folder, and the hub's database over them."""

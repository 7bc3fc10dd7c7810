"""A fleet trains many trials of one shape as one batched program."""

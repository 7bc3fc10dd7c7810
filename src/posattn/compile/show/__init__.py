"""A program as a picture and as a trace of its registers."""

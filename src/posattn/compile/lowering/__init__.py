"""The passes from a program to the weights of a positional Transformer; `lower` lists them."""

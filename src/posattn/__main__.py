"""`python -m posattn` is the command `posattn`."""

from posattn.cli import main

main()

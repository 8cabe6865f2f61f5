"""`python -m polyrhythm`, where the program itself is not on the path."""

from polyrhythm.cli.app import main

main()

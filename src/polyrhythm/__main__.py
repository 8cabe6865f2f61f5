"""`python -m polyrhythm`, where the program itself is not on the path."""

from polyrhythm.tools.cli.app import main

main()

"""`python -m ration`: the command of this Python's package."""
from ration_command import main

main("ration")

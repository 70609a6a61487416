"""The name of the generator behind every seed, with a version: the same seed of another generator is another run.

The part before the slash says how words are made (rounds/random.py); the number after it stands for the rest of the way from a seed to a draw:
streams, addresses, and how words become numbers. Whoever changes any of that raises the number, and stored runs then say which one they had.
"""

GENERATOR = "threefry2x32-20/1"

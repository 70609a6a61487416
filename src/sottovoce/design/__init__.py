"""Noise that is computed instead of chosen: what it costs, how it is spread over agents and rounds, and how far from the best it can be."""

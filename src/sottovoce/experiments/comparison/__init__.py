"""Noise schemes at equal privacy: calibrated, run together, and ranked."""

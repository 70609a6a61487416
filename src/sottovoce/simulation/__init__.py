"""Simulation: one compiled program for all agents, schemes and repeats, driven chunk by chunk."""

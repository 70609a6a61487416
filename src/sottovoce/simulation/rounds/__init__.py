"""What is compiled: one round of all agents, schemes and repeats, and the random numbers it draws."""

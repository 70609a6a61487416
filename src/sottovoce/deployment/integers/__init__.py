"""Whole numbers in place of real ones: the lattice on which parties compute, noise on it, and masks modulo 2^64."""

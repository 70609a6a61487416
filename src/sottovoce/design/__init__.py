"""Noise that is computed: the best covariance for a network, its targets and its error, with a proven bound on how good any other could be."""

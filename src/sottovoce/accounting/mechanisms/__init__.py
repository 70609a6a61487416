"""The basic mechanisms and how they compose: Gaussian, pure, sampled, randomised response."""

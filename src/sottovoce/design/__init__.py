"""Design of noise: the strengths that cost least accuracy for what every observer may learn."""

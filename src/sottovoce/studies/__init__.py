"""Studies: what a document claims, run, drawn and judged. One file for every kind of study, with its section of a file, its computation and its pictures."""

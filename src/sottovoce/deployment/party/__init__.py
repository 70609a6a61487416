"""A party as a process: it reads what came, computes, writes down what it will send, and only then sends it."""

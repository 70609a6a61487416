"""The linear view of a run: Gram matrices of what an observer sees, and the gradient changes that show most."""

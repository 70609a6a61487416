"""What is asked of the accountant, checked once, and how it is reduced to one gradient step per message."""

"""One file per proof; `account` states the smallest value that applies."""

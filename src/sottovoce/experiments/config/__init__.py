"""What an experiment's file may say: one immutable model for every table, and how a file is read."""

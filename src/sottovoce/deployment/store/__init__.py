"""What a party must not forget: one file for a data set and all its runs, written before anything is sent."""

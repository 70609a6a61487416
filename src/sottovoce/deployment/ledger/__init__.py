"""What has been given away of a data set over all runs, and how much more may be."""

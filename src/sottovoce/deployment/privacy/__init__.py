"""What a deployed run gives away: the guarantee of the simulated one, with what rounding and imperfect samplers cost added."""

"""Files to start from: templates that run as they are, and a draft for somebody's own data."""

"""One attempt at a task, and the search over attempts."""

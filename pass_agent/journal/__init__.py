"""What a run leaves behind: journal, trajectory, views."""

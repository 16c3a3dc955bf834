"""Configurations of the agent."""

"""Architectures that can be had as code: what there is, and how to build each with random weights."""

"""Where evaluations run: a sandboxed local process or a Docker container."""

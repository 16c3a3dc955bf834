"""Reference-style logs: `log_lines` writes, `read_log` and `parse_log` read."""

from pass_bench.results.log_reader import LoggedGraph, parse_log, read_log
from pass_bench.results.log_writer import DEFAULT_PROMPT, log_lines

__all__ = ["DEFAULT_PROMPT", "LoggedGraph", "log_lines", "parse_log", "read_log"]

"""Run the agent on tasks of a dataset, from the repository's root or from pass_agent/.

python examples/run_pass_agent_demo.py --llm-name openai/glm-4.7 --llm-base-url URL --openai-api-key KEY \
    --dataset datasets/passbench_demo_dataset.jsonl --max-steps 50 --k 10

The same as `passagent run`, except that it goes on by itself where an earlier run of the same name stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

# Works in a checkout that is not installed, too.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pass_agent.agent.command import execute, run_options
from pass_agent.cli import run


@click.command("run_pass_agent_demo", help=__doc__, context_settings={"help_option_names": ["-h", "--help"]})
@run_options
def demo(**options: Any) -> int:
    """Run with the defaults of the published script."""
    return execute(options, resume=True)


if __name__ == "__main__":
    sys.exit(run(demo))

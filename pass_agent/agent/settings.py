"""What a user chose for a run."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pass_agent.agent.budget import Limits
from pass_agent.model.prices import Price
from pass_agent.records import Record
from pass_agent.runtime.docker_runtime import DockerSettings
from pass_agent.runtime.local import Sandbox


class RunSettings(Record):
    """A run: `k` tasks of a dataset from `start_idx` on, `attempts` times each."""

    dataset: Path
    config: Path
    traj_dir: Path = Path("trajectories/pass_agent")
    exp_name: str = "pass_agent_full_trajectory"
    llm_name: str = ""
    llm_base_url: str = ""
    api_key: str = Field(default="", repr=False)
    anthropic_api_key: str = Field(default="", repr=False)
    temperature: float = 1.0
    max_tokens: int = 16384
    k: int = 1
    start_idx: int = 0
    max_workers: int = 1
    attempts: int = 1
    limits: Limits = Limits()
    max_cost: float = 0.0
    max_total_tokens: int = 0
    price: Price | None = None
    runtime: str = "auto"
    sandbox: Sandbox = "auto"
    docker: DockerSettings = DockerSettings()
    device: str = ""
    environment: dict[str, str] = Field(default_factory=dict)
    bandwidth: float = 0.0
    start_from: str = "empty"  # or "sample": its own passes
    few_shot: bool = True
    resume: bool = False
    retry: tuple[str, ...] = ()  # exit reasons whose attempts go on when resumed
    apply: bool = False  # write the best pass set into the sample's own pass_dir

    @property
    def folder(self) -> Path:
        """Where journals, pass sets and evaluations of this run lie."""
        return self.traj_dir / self.exp_name

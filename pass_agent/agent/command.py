"""`passagent run`, and the options that it shares with the demo script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pass_agent.agent.budget import Limits
from pass_agent.agent.config import DEFAULT
from pass_agent.agent.dataset import find_file
from pass_agent.agent.runner import Runner
from pass_agent.agent.settings import RunSettings
from pass_agent.agent.summary import describe_summary
from pass_agent.errors import BadInput, ExitReason, RunIncomplete
from pass_agent.model.prices import Price
from pass_agent.model.script import read_script
from pass_agent.model.server import serving
from pass_agent.runtime.docker_runtime import DockerSettings

DATASET = Path("datasets/passbench_demo_dataset.jsonl")


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options of a run to a click command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


OPTIONS: list[Callable[..., Any]] = [
    click.option(
        "--llm-name", default="", help="Model; openai/NAME, or scripted:FILE for a script of replies."
    ),
    click.option("--serve-script", type=Path, default=None, help="Serve a script of replies and use that."),
    click.option("--llm-base-url", envvar="LLM_BASE_URL", default="", help="Endpoint, with its /v1."),
    click.option("--openai-api-key", envvar="OPENAI_API_KEY", default="", help="Key of the endpoint."),
    click.option(
        "--anthropic-api-key", envvar="ANTHROPIC_API_KEY", default="", help="Key for claude models."
    ),
    click.option("--config", type=Path, default=DEFAULT, help="Configuration: prompts and tools."),
    click.option("--dataset", type=Path, default=DATASET, show_default=True, help="Tasks, JSON lines."),
    click.option(
        "--traj-dir",
        type=Path,
        default=Path("trajectories/pass_agent"),
        show_default=True,
        help="Where runs are kept.",
    ),
    click.option(
        "--exp-name", default="pass_agent_full_trajectory", show_default=True, help="Name of the run."
    ),
    click.option("--k", type=click.IntRange(0), default=1, show_default=True, help="Tasks; 0: all."),
    click.option("--start-idx", type=click.IntRange(0), default=0, help="First task."),
    click.option(
        "--max-workers",
        type=click.IntRange(1),
        envvar="MAX_WORKERS",
        default=1,
        show_default=True,
        help="Attempts at once; evaluations take turns on each device.",
    ),
    click.option("--attempts", type=click.IntRange(1), default=1, help="Attempts per task."),
    click.option(
        "--max-steps", type=click.IntRange(1), default=100, show_default=True, help="Answers per attempt."
    ),
    click.option(
        "--temperature", type=click.FloatRange(0), default=1.0, show_default=True, help="Of the sampling."
    ),
    click.option(
        "--max-tokens", type=click.IntRange(1), default=16384, show_default=True, help="Of one answer."
    ),
    click.option("--max-token-limit", type=click.IntRange(0), default=128_000, help="Of one conversation."),
    click.option(
        "--max-total-tokens", type=click.IntRange(0), default=0, help="Of the whole run; 0: no limit."
    ),
    click.option(
        "--max-cost", type=click.FloatRange(0), default=0.0, help="Of the whole run in USD; 0: no limit."
    ),
    click.option("--price", default="", help="USD per million tokens: PROMPT:COMPLETION[:CACHED]."),
    click.option("--max-total-time", type=click.FloatRange(0), default=50_000.0, help="Seconds per attempt."),
    click.option("--max-exec-time", type=click.FloatRange(1), default=1800.0, help="Seconds per evaluation."),
    click.option(
        "--patience", type=click.IntRange(0), default=10, help="Evaluations without a gain; 0: endless."
    ),
    click.option(
        "--runtime",
        type=click.Choice(["auto", "local", "docker"]),
        default="auto",
        show_default=True,
        help="Where evaluations run; auto: Docker where an engine has the image, else local.",
    ),
    click.option(
        "--sandbox",
        type=click.Choice(["require", "auto", "off"]),
        default="auto",
        show_default=True,
        help="Namespaces around local evaluations.",
    ),
    click.option("--docker-image", default="", help="Instead of the tasks' image."),
    click.option("--docker-mount", multiple=True, help="SOURCE:TARGET[:ro]; may be repeated."),
    click.option("--docker-memory", default="32g", show_default=True, help="Limit of a container."),
    click.option(
        "--docker-privileged/--no-docker-privileged",
        default=False,
        help="For engines that refuse nested namespaces otherwise.",
    ),
    click.option(
        "--gpus",
        default="auto",
        show_default=True,
        help="For Docker: all, none or 0,1; an evaluation gets one of them.",
    ),
    click.option("--device", type=click.Choice(["", "cpu", "cuda"]), default="", help="Evaluation device."),
    click.option("--eval-env", multiple=True, help="NAME=VALUE for entry.sh, such as PASSNET_TRIALS=50."),
    click.option(
        "--peak-bandwidth",
        type=click.FloatRange(0),
        default=0.0,
        help="GB/s, for rooflines; `passbench calibrate` measures it.",
    ),
    click.option(
        "--start-from",
        type=click.Choice(["empty", "sample"]),
        default="empty",
        show_default=True,
        help="What pass_dir holds at first.",
    ),
    click.option("--few-shot/--no-few-shot", default=True, help="Show one similar pass in the prompt."),
    click.option("--resume/--no-resume", default=None, help="Go on with an earlier run of this name."),
    click.option(
        "--retry",
        multiple=True,
        type=click.Choice([str(reason) for reason in ExitReason]),
        help="With --resume: let attempts go on that ended so; may be repeated.",
    ),
    click.option("--apply", is_flag=True, help="Write the best pass sets into the samples' own pass_dir."),
]


def read_settings(options: dict[str, Any], resume: bool) -> RunSettings:
    """Turn options into settings; `resume` is the default where the user says nothing."""
    given = dict(options)
    wanted = given.pop("resume")
    chosen = {
        "api_key": given.pop("openai_api_key"),
        "limits": Limits(**{field: given.pop(field) for field in Limits.model_fields if field in given}),
        "docker": DockerSettings(
            image=given.pop("docker_image"),
            gpus=given.pop("gpus"),
            mounts=tuple(given.pop("docker_mount")),
            memory=given.pop("docker_memory"),
            privileged=given.pop("docker_privileged"),
            lifetime_s=max(DockerSettings().lifetime_s, int(options["max_exec_time"]) + 3600),
        ),
        "price": _price(given.pop("price")),
        "environment": dict(_pair(text) for text in given.pop("eval_env")),
        "bandwidth": given.pop("peak_bandwidth"),
        "resume": resume if wanted is None else wanted,
    }
    return RunSettings(**given, **chosen)


def _price(text: str) -> Price | None:
    if not text:
        return None
    try:
        parts = [float(part) for part in text.split(":")]
        return Price(prompt=parts[0], completion=parts[1], cached=parts[2] if len(parts) > 2 else None)
    except (ValueError, IndexError) as error:
        raise BadInput(f"--price is PROMPT:COMPLETION[:CACHED], not {text}") from error


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise BadInput(f"--eval-env is NAME=VALUE, not {text}")
    return name, value


def execute(options: dict[str, Any], resume: bool) -> int:
    """Run and print; exit code 0 once every attempt has ended, however it ended."""
    script = options.pop("serve_script")
    settings = read_settings(options, resume)
    if script is None:
        return _execute(settings)
    with serving(read_script(find_file(script))) as server:
        click.echo(f"serving {script} on {server.url}")
        served = {"llm_name": f"openai/{script.stem}", "llm_base_url": server.url, "api_key": "none"}
        return _execute(settings.model_copy(update=served))


def _execute(settings: RunSettings) -> int:
    runner = Runner(settings, click.echo)
    click.echo(describe_summary(runner.run()))
    click.echo(f"trajectories: {settings.traj_dir / (settings.exp_name + '.jsonl')}")
    if runner.unrecorded:
        count = len(runner.unrecorded)
        raise RunIncomplete(f"{count} attempts left no trajectory; the first: {runner.unrecorded[0]}")
    return 0


@click.command("run")
@run_options
def run_command(**options: Any) -> int:
    """Let a model work on the tasks of a dataset."""
    return execute(options, resume=False)

"""`python3 -m pass_bench.torch.test_compiler`: the published command line; prints a log, graph after graph.

Not a test module, whatever its name says.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import click
from pydantic import BaseModel, ConfigDict, ValidationError

from pass_bench.cli import run
from pass_bench.errors import BadInput, HarnessFailure
from pass_bench.results.records import EvalSettings, GraphResult
from pass_bench.results.verdict import Verdict

__test__ = False


class Config(BaseModel):
    """The published --config; what it names beyond these is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pass_match_result_file_path: str | None = None
    input_pass_rule_dir: str | None = None
    output_pass_rule_dir: str | None = None
    output_pass_pattern_limit: int | None = None
    output_pass_replacement_func_limit: int | None = None
    compat: bool = False


def parse_config(text: str | None) -> Config:
    """Decode base64 JSON; raises BadInput."""
    expected = "base64 of a JSON object"
    if not text:
        return Config()
    try:
        decoded = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        raise BadInput("--config is not base64", expected=expected) from None
    try:
        return Config.model_validate_json(decoded)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(
            f"--config: {where + ': ' if where else ''}{first['msg']}", expected=expected
        ) from None


def listed_graphs(prefix: Path, allow_list: Path | None, model_path: Path | None) -> tuple[Any, ...]:
    """Return the graphs that the arguments name; raises BadInput."""
    from pass_bench.data.records import GraphRef
    from pass_bench.data.source import read_text

    if (allow_list is None) == (model_path is None):
        raise BadInput("give either --allow-list or --model-path")
    if model_path is not None:
        path = model_path if model_path.is_absolute() else prefix / model_path
        names: list[tuple[str, Path, int | None]] = [(str(model_path), path, None)]
    else:
        assert allow_list is not None
        lines = enumerate(read_text(allow_list).splitlines(), start=1)
        names = [
            (line.strip(), prefix / line.strip(), number)
            for number, line in lines
            if line.strip() and not line.strip().startswith("#")
        ]
    if not names:
        raise BadInput("lists no graph", path=allow_list, expected="one graph path per line")
    for name, path, number in names:
        if not (path / "model.py").is_file():
            raise BadInput(
                f"no graph at {name!r}", path=allow_list, line=number, expected="a graph directory"
            )
    return tuple(GraphRef(name, path) for name, path, _ in names)


@click.command("test_compiler", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--model-path-prefix", default=".", type=click.Path(path_type=Path), help="Listed paths start here."
)
@click.option("--allow-list", type=click.Path(path_type=Path), help="File with one graph path per line.")
@click.option("--model-path", type=click.Path(path_type=Path), help="One graph instead of a list.")
@click.option("--compiler", default="pass_mgr", show_default=True)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--warmup", type=click.IntRange(0, 10_000), default=25, show_default=True)
@click.option("--trials", type=click.IntRange(3, 100_000), default=100, show_default=True)
@click.option("--log-prompt", default="graph-net-test-compiler-log", show_default=True)
@click.option("--config", help="Base64 of JSON with the pass directories and limits.")
def command(
    model_path_prefix: Path,
    allow_list: Path | None,
    model_path: Path | None,
    compiler: str,
    device: str,
    warmup: int,
    trials: int,
    log_prompt: str,
    config: str | None,
) -> int:
    """Evaluate graphs and print a log; PASSNET_DEVICE, where set, overrides --device."""
    from pass_bench.data import Sample
    from pass_bench.results.log_writer import log_lines
    from pass_bench.worker.evaluate import Evaluator

    chosen = parse_config(config)
    device = os.environ.get("PASSNET_DEVICE") or device
    if device not in ("auto", "cpu", "cuda"):
        raise BadInput(f"PASSNET_DEVICE is {device!r}", expected="auto, cpu or cuda")
    graphs = listed_graphs(model_path_prefix, allow_list, model_path)
    pass_dir = Path(chosen.output_pass_rule_dir or model_path_prefix / "pass_dir")
    const = Path(chosen.input_pass_rule_dir) if chosen.input_pass_rule_dir else None
    settings = EvalSettings(
        compiler=compiler,
        device=cast(Any, device),
        warmup=warmup,
        trials=trials,
        compat=chosen.compat,
        pattern_limit=chosen.output_pass_pattern_limit,
        replacement_func_limit=chosen.output_pass_replacement_func_limit,
    )
    sample = Sample(path=model_path_prefix, graphs=graphs, pass_dir=pass_dir)
    results: list[GraphResult] = []
    with Evaluator(settings) as evaluator:
        assert evaluator.environment is not None

        def show(result: GraphResult) -> None:
            results.append(result)
            lines = log_lines(
                result,
                prompt=log_prompt,
                warmup=warmup,
                trials=trials,
                framework_version=cast(Any, evaluator.environment).torch,
            )
            click.echo("\n".join(lines))
            sys.stdout.flush()

        evaluator.evaluate(sample, const_pass_dir=const if const and const.is_dir() else None, on_result=show)
    if chosen.pass_match_result_file_path:
        write_matches(Path(chosen.pass_match_result_file_path), results)
    if all(result.verdict is Verdict.INFRA for result in results):
        raise HarnessFailure(f"no graph could be evaluated: {results[0].reason}")
    return 0


def write_matches(path: Path, results: list[GraphResult]) -> None:
    """Write how often each pass matched each graph: {graph: {pass: count}}."""
    matches = {r.graph: {report.name: report.matched for report in r.passes} for r in results}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(matches, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run(command))

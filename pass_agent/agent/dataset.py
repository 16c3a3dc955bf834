"""Dataset files: which tasks a run works on."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from pass_agent.errors import BadInput
from pass_agent.records import Task

PACKAGE = Path(__file__).resolve().parent.parent


def find_file(path: Path) -> Path:
    """A path as given, below the package or below the repository: commands work from either folder."""
    for candidate in (path, PACKAGE / path, PACKAGE.parent / path):
        if candidate.exists():
            return candidate
    raise BadInput("no such file", path=path)


def read_tasks(path: Path) -> list[Task]:
    """Read a JSON-lines dataset; raises BadInput for a line that is no task, or an instance_id seen twice."""
    tasks: list[Task] = []
    seen: set[str] = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            task = Task.model_validate(json.loads(line))
        except (ValueError, ValidationError) as error:
            detail = (
                error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
            )
            where = ".".join(str(part) for part in detail["loc"])
            raise BadInput(f"not a task: {where} {detail['msg']}".strip(), path=path, line=number) from error
        if task.instance_id in seen:
            raise BadInput(f"instance_id {task.instance_id} occurs twice", path=path, line=number)
        seen.add(task.instance_id)
        tasks.append(task)
    if not tasks:
        raise BadInput("the dataset holds no task", path=path)
    return tasks


def find_sample(task: Task, dataset: Path) -> Path:
    """The task's sample directory: as given, below the dataset's folders, or below the repository."""
    given = Path(task.sample_dir)
    if given.is_absolute():
        return given
    for base in (Path.cwd(), *dataset.resolve().parents, PACKAGE.parent):
        if (base / given).is_dir():
            return base / given
    hint = "passbench dataset unpack --list LIST writes the samples of a list"
    raise BadInput(f"the sample directory of {task.instance_id} is not there; {hint}", path=given)

"""What the model sees: the sample, read-only, with a pass_dir of its own that it may write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pass_agent.evaluation.pass_set import PassSet, read_pass_set
from pass_agent.evaluation.sample import SampleSource

PASS_DIR, OBSERVATIONS = "pass_dir", "observations"
FILE_LIMIT = 1 << 20


class Refused(Exception):
    """A tool call that cannot be done; the message goes to the model."""


@dataclass(frozen=True)
class Place:
    """A path of the model, resolved: `shown` relative to the sample, `real` on this machine."""

    shown: str
    real: Path
    writable: bool


class Workspace:
    """Resolves the model's paths.

    `pass_dir/` and `observations/` live in `folder`; everything else is read from the pristine sample, whose
    own pass_dir is not shown. Links are followed only into the listed graphs and the package of the sample.
    """

    def __init__(self, sample: SampleSource, folder: Path):
        self.sample = sample
        self.folder = folder
        self.pass_dir = folder / PASS_DIR
        self.observations = folder / OBSERVATIONS
        self.tree = sample.tree()
        self.pass_dir.mkdir(parents=True, exist_ok=True)
        self.observations.mkdir(parents=True, exist_ok=True)

    def pass_set(self) -> PassSet:
        return read_pass_set(self.pass_dir)

    def relative(self, path: str) -> PurePosixPath:
        """The model's path relative to the sample; absolute spellings of its own place are accepted."""
        text = path.strip().replace("\\", "/")
        for prefix in (str(self.sample.root), str(self.folder), "/workspace", "/sample"):
            if text == prefix or text.startswith(prefix + "/"):
                text = text[len(prefix) :].lstrip("/")
                break
        pure = PurePosixPath(text)
        if pure.is_absolute() or ".." in pure.parts:
            raise Refused(f"{path}: paths stay within the sample directory")
        return pure

    def place(self, path: str) -> Place:
        """Resolve a path for reading or writing; raises Refused where it leads outside."""
        pure = self.relative(path)
        shown = pure.as_posix()
        if pure.parts[:1] in ((PASS_DIR,), (OBSERVATIONS,)):
            real = self.folder / pure
            if not real.resolve().is_relative_to(self.folder.resolve()):
                raise Refused(f"{path}: links are not followed")
            return Place(shown, real, pure.parts[0] == PASS_DIR and len(pure.parts) > 1)
        for name, source in self.tree.items():
            prefix = PurePosixPath(name)
            if pure == prefix or prefix in pure.parents:
                real = source / pure.relative_to(prefix)
                if not real.resolve().is_relative_to(source):
                    raise Refused(f"{path}: links are not followed")
                return Place(shown, real, False)
        return Place(shown, self.folder / ".missing" / pure, False)

    def children(self, path: str, depth: int = 2) -> list[str]:
        """Entries up to `depth` levels below a directory, hidden ones and caches left out, sorted."""
        pure = self.relative(path)
        base = () if pure.as_posix() == "." else pure.parts
        found: set[tuple[str, ...]] = set()
        for parts in self._all_parts(base):
            for length in range(len(base) + 1, min(len(parts), len(base) + depth) + 1):
                found.add(parts[:length])
        shown = ("/".join(parts) for parts in sorted(found))
        return [name for name in shown if not _hidden(name)]

    def _all_parts(self, base: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Paths of everything that exists below `base`, and of the directories on the way."""
        roots = {PASS_DIR: self.pass_dir, OBSERVATIONS: self.observations, **self.tree}
        found = []
        for name, source in roots.items():
            parts = PurePosixPath(name).parts
            if parts[: len(base)] == base:
                found.append(parts)
                if len(parts) - len(base) < 2:
                    found += [(*parts, *below) for below in _below(source, 2)]
            elif base[: len(parts)] == parts:
                inner = source.joinpath(*base[len(parts) :])
                found += [(*base, *below) for below in _below(inner, 2)]
        return found

    def is_directory(self, path: str) -> bool:
        pure = self.relative(path)
        if pure.as_posix() == "." or any(pure in PurePosixPath(name).parents for name in self.tree):
            return True
        return self.place(path).real.is_dir()


def _below(folder: Path, depth: int) -> list[tuple[str, ...]]:
    if depth == 0 or not folder.is_dir():
        return []
    found: list[tuple[str, ...]] = []
    for entry in folder.iterdir():
        found.append((entry.name,))
        if entry.is_dir() and not entry.is_symlink():
            found += [(entry.name, *below) for below in _below(entry, depth - 1)]
    return found


def _hidden(name: str) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in name.split("/"))

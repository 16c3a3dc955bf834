"""Importing modules of a pass_dir under the name `pass_dir`, from source text only."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

PACKAGE = "pass_dir"


class SourceLoader(importlib.machinery.SourceFileLoader):
    """Compiles the source each time: what runs is the text that was checked, never a cached .pyc."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class PassFinder(importlib.abc.MetaPathFinder):
    """Finds `pass_dir` and the .py files and folders below it in one directory."""

    def __init__(self, directory: Path):
        self.directory = directory

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, *names = fullname.split(".")
        if package != PACKAGE:
            return None
        place = self.directory.joinpath(*names)
        if not names or place.is_dir():
            initial = place / "__init__.py" if names else None
            if initial is not None and initial.is_file():
                return _spec(fullname, initial, [str(place)])
            spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(place)]
            return spec
        source = place.with_name(place.name + ".py")
        return _spec(fullname, source, None) if source.is_file() else None


def _spec(name: str, source: Path, locations: list[str] | None) -> importlib.machinery.ModuleSpec | None:
    return importlib.util.spec_from_file_location(
        name, source, loader=SourceLoader(name, str(source)), submodule_search_locations=locations
    )


def use_pass_dir(directory: Path) -> None:
    """From now on `pass_dir` means this directory, also in imports that a pass makes while it runs.

    Whatever was imported under the name before is forgotten.
    """
    for name in [n for n in sys.modules if n == PACKAGE or n.startswith(PACKAGE + ".")]:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, PassFinder)]
    sys.meta_path.insert(0, PassFinder(directory))

"""What a name in a pass stands for: imports and aliases followed to an origin such as `torch.matmul`."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from pass_bench.guard.allowed import words

SELF = "pass_dir"  # the package that the files of a pass_dir form
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass
class Scope:
    """Names bound in a module or function: to a dotted origin, or to None where it is some other value.

    `tensors` are the names that certainly hold tensors: something only a tensor has was asked of them, or an
    allocator made them.
    """

    parent: Scope | None
    names: dict[str, str | None] = field(default_factory=dict)
    tensors: set[str] = field(default_factory=set)

    def lookup(self, name: str) -> str | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return f"builtins.{name}"

    def holds_tensor(self, name: str) -> bool:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return name in scope.tensors
            scope = scope.parent
        return False


_TENSOR_EVIDENCE = words(
    """
    shape stride data_ptr is_contiguous contiguous element_size storage_offset new_empty is_cuda
    untyped_storage ndim
    """
)
_MAKES_TENSOR = words(
    """
    torch.empty torch.empty_like torch.empty_strided torch.zeros torch.zeros_like torch.ones
    torch.ones_like torch.full torch.full_like torch.as_tensor
    """
)
_TENSOR_TO_TENSOR = words(
    """
    view reshape expand permute transpose contiguous to float half bfloat16 detach flatten squeeze
    unsqueeze narrow as_strided new_empty new_zeros new_ones new_full new_empty_strided t T
    """
)


def resolve(node: ast.expr, scope: Scope) -> str | None:
    """Dotted origin of an expression, None where it is some computed value.

    `getattr(x, "constant")` counts as `x.constant`.
    """
    if isinstance(node, ast.Name):
        return scope.lookup(node.id)
    if isinstance(node, ast.Attribute):
        base = resolve(node.value, scope)
        return None if base is None or base.startswith("builtins.") else f"{base}.{node.attr}"
    if isinstance(node, ast.NamedExpr):
        return resolve(node.value, scope)
    constant = constant_getattr(node, scope)
    if constant is not None:
        base = resolve(constant[0], scope)
        return None if base is None or base.startswith("builtins.") else f"{base}.{constant[1]}"
    return None


def constant_getattr(node: ast.expr, scope: Scope) -> tuple[ast.expr, str] | None:
    """The object and the attribute of `getattr(object, "attribute"[, default])`, None for anything else."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and scope.lookup(node.func.id) == "builtins.getattr"
        and 2 <= len(node.args) <= 3
        and isinstance(node.args[1], ast.Constant)
        and isinstance(node.args[1].value, str)
    ):
        return node.args[0], node.args[1].value
    return None


def module_scope(tree: ast.Module, module: str) -> Scope:
    """Bind the names of a module; `module` is its dotted name, `pass_dir.FusedAdd`."""
    scope = Scope(None)
    _bind(tree.body, scope, module, is_module=True)
    return scope


def function_scope(node: FunctionNode, parent: Scope, module: str) -> Scope:
    """Bind parameters and local names of a function."""
    scope = Scope(parent)
    arguments = node.args
    for argument in [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        *filter(None, (arguments.vararg, arguments.kwarg)),
    ]:
        scope.names[argument.arg] = None
    if not isinstance(node, ast.Lambda):
        for inner in ast.walk(node):
            if isinstance(inner, ast.Global | ast.Nonlocal):
                for name in inner.names:
                    scope.names.pop(name, None)
        _bind(node.body, scope, module, is_module=False)
        for statement in node.body:
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Attribute) and inner.attr in _TENSOR_EVIDENCE:
                    target = inner.value
                    if isinstance(target, ast.Name) and scope.names.get(target.id, "") is None:
                        scope.tensors.add(target.id)
    return scope


def _bind(body: list[ast.stmt], scope: Scope, module: str, *, is_module: bool) -> None:
    for statement in body:
        _bind_statement(statement, scope, module, is_module)


def _bind_statement(node: ast.stmt, scope: Scope, module: str, is_module: bool) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            dotted = alias.name if alias.asname else alias.name.split(".")[0]
            scope.names[alias.asname or dotted] = dotted
    elif isinstance(node, ast.ImportFrom):
        base = absolute(node, module)
        for alias in node.names:
            scope.names[alias.asname or alias.name] = f"{base}.{alias.name}" if base else alias.name
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        scope.names[node.name] = f"{module}.{node.name}" if is_module else None
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            _bind_target(target, node.value, scope)
    elif isinstance(node, ast.For | ast.AsyncFor):
        _bind_target(node.target, None, scope)
    elif isinstance(node, ast.With | ast.AsyncWith):
        for item in node.items:
            if item.optional_vars is not None:
                _bind_target(item.optional_vars, None, scope)
    for expression in ast.iter_child_nodes(node):
        if isinstance(expression, ast.expr):
            for inner in ast.walk(expression):
                if isinstance(inner, ast.NamedExpr):
                    _bind_target(inner.target, inner.value, scope)
    for block in ("body", "orelse", "finalbody"):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            _bind(getattr(node, block, None) or [], scope, module, is_module=is_module)
    for handler in getattr(node, "handlers", []):
        if handler.name:
            scope.names[handler.name] = None
        _bind(handler.body, scope, module, is_module=is_module)
    for case in getattr(node, "cases", []):
        _bind(case.body, scope, module, is_module=is_module)


def _bind_target(target: ast.expr, value: ast.expr | None, scope: Scope) -> None:
    if isinstance(target, ast.Name):
        origin = resolve(value, scope) if value is not None else None
        if origin is not None and origin.startswith("builtins."):
            name = origin.removeprefix("builtins.")
            origin = origin if name.isidentifier() and _is_builtin(name) else None
        known = scope.names.get(target.id)
        scope.names[target.id] = origin or known  # once an alias, always suspected to be one
        if value is not None and is_tensor(value, scope):
            scope.tensors.add(target.id)
    elif isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        paired = values if len(values) == len(target.elts) else [None] * len(target.elts)
        for each, given in zip(target.elts, paired, strict=True):
            _bind_target(each, given, scope)
    elif isinstance(target, ast.Starred):
        _bind_target(target.value, None, scope)


def is_tensor(node: ast.expr, scope: Scope) -> bool:
    """Whether an expression certainly is a tensor."""
    if isinstance(node, ast.Name):
        return scope.holds_tensor(node.id)
    if isinstance(node, ast.Call):
        if resolve(node.func, scope) in _MAKES_TENSOR:
            return True
        return (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in _TENSOR_TO_TENSOR
            and is_tensor(node.func.value, scope)
        )
    return isinstance(node, ast.Subscript) and is_tensor(node.value, scope)


def absolute(node: ast.ImportFrom, module: str) -> str:
    """Absolute name of the module that a `from ... import` names; relative ones start at `module`."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")[: -node.level]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _is_builtin(name: str) -> bool:
    import builtins

    return hasattr(builtins, name)

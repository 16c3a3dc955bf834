"""Rules over the Python text of a pass: one walk over its syntax tree, aliases followed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from pass_bench.guard import allowed
from pass_bench.guard.native_rules import check_native, looks_native
from pass_bench.guard.scopes import (
    SELF,
    Scope,
    absolute,
    constant_getattr,
    function_scope,
    is_tensor,
    resolve,
)

Report = Callable[[str, str, int], None]  # rule, why, line
TRACED = ("pattern", "replacement_args")


class Checker:
    """Walks one module; `traced` are the dotted names of functions that only patterns use."""

    def __init__(
        self, module: str, scope: Scope, traced: frozenset[str], kernels: frozenset[str], report: Report
    ):
        self._module, self._scope = module, scope
        self._traced, self._kernels, self._report = traced, kernels, report
        self._in_pattern = False  # tensor code is what a pattern is made of
        self._in_kernel = False  # inside @triton.jit, operators and methods are Triton's
        self._local = scope

    def check(self, tree: ast.Module) -> None:
        for statement in tree.body:
            self._statement(statement, top=True)

    # ---- statements

    def _statement(self, node: ast.stmt, top: bool = False) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._function(node, f"{self._module}.{node.name}" if top else "")
        elif isinstance(node, ast.ClassDef):
            self._class(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node)
        elif top and _is_main_guard(node):
            return
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            self._assignment(node, top)
        else:
            self._children(node, top)

    def _children(self, node: ast.AST, top: bool = False) -> None:
        bound = _bound(node)
        if bound is not None:
            self._target(bound)
        for child in ast.iter_child_nodes(node):
            if child is bound:
                continue
            if isinstance(child, ast.stmt):
                self._statement(child, top)
            elif isinstance(child, ast.expr):
                self._expression(child)
            else:  # handlers, with-items, match cases, comprehension clauses
                self._children(child, top)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, dotted: str) -> None:
        if node.name.startswith("__torch_"):
            self._report("tensor-subclass", f"{node.name} intercepts torch's own calls", node.lineno)
        for expression in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self._expression(expression)
        self._annotations(node)
        before = self._in_pattern, self._in_kernel, self._local
        self._in_pattern = self._in_pattern or dotted in self._traced
        self._in_kernel = self._in_kernel or dotted in self._kernels or is_kernel(node, self._local)
        self._local = function_scope(node, self._local, self._module)
        for statement in node.body:
            self._statement(statement)
        self._in_pattern, self._in_kernel, self._local = before

    def _annotations(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for annotation in [node.returns, *(argument.annotation for argument in arguments)]:
            if annotation is not None and not isinstance(annotation, ast.Constant):
                self._expression(annotation)

    def _class(self, node: ast.ClassDef) -> None:
        for base in [*node.bases, *(keyword.value for keyword in node.keywords)]:
            if resolve(base, self._local) == "torch.Tensor":
                self._report("tensor-subclass", "a subclass of torch.Tensor runs its own code", node.lineno)
            self._expression(base)
        for decorator in node.decorator_list:
            self._expression(decorator)
        for statement in node.body:
            self._statement(statement)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = absolute(node, self._module)
            if any(alias.name == "*" for alias in node.names):
                self._report("star-import", f"from {base} import * hides what is used", node.lineno)
            names = [base]
            for alias in node.names:
                self._dotted(f"{base}.{alias.name}", node.lineno, imported=True)
        for name in names:
            root = name.split(".")[0]
            if root == SELF:
                continue
            if root == "pass_bench":
                if name != "pass_bench" and not name.startswith("pass_bench.kernels"):
                    self._harness(name, node.lineno)
            elif not allowed.may_import(name):
                self._report("forbidden-import", f"{name} is not among what a pass may import", node.lineno)

    def _assignment(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete, top: bool) -> None:
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        value = None if isinstance(node, ast.Delete) else node.value
        for target in targets:
            self._target(target)
        if isinstance(node, ast.AugAssign) and self._computes(node.target):
            self._report("torch-compute", "in-place arithmetic on a tensor", node.lineno)
        if isinstance(node, ast.AnnAssign) and not isinstance(node.annotation, ast.Constant):
            self._expression(node.annotation)
        if value is None:
            return
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        before = self._in_pattern
        self._in_pattern = before or (top and bool(names) and names <= set(TRACED))
        plain = isinstance(value, ast.Name | ast.Attribute) and all(isinstance(t, ast.Name) for t in targets)
        self._expression(value, aliased=plain)
        self._in_pattern = before

    def _target(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                self._target(each)
        elif isinstance(target, ast.Starred):
            self._target(target.value)
        elif isinstance(target, ast.Attribute):
            self._patched(target.value, target.attr, target.lineno)
            self._expression(target.value, aliased=True)
            if _is_dunder(target.attr) and target.attr not in allowed.DUNDERS:
                self._report("dunder", f"assigns {target.attr}", target.lineno)
        elif isinstance(target, ast.Subscript):
            self._patched(target.value, "[...]", target.lineno)
            if self._computes(target.value):
                self._report("torch-compute", "writes into a tensor with torch's setitem", target.lineno)
            self._expression(target.value, aliased=True)
            self._expression(target.slice)
        elif isinstance(target, ast.Name) and _is_dunder(target.id) and target.id != "__all__":
            self._report("dunder", f"assigns {target.id}", target.lineno)

    def _patched(self, owner: ast.expr, attribute: str, line: int) -> None:
        dotted = resolve(owner, self._local)
        if dotted is not None and not dotted.startswith((f"{SELF}.", "builtins.")):
            self._report("patched-module", f"assigns {dotted}.{attribute}", line)

    # ---- expressions

    def _expression(self, node: ast.expr, aliased: bool = False) -> None:
        dotted = resolve(node, self._local)
        if dotted is not None:
            self._dotted(dotted, node.lineno, aliased=aliased)
            return
        if isinstance(node, ast.Call):
            self._call(node)
            return
        if isinstance(node, ast.Attribute):
            self._attribute(node)
        elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare):
            self._operator(node)
        elif isinstance(node, ast.Lambda):
            before, self._local = self._local, function_scope(node, self._local, self._module)
            self._expression(node.body)
            self._local = before
            return
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and looks_native(node.value):
            for rule, why, line in check_native(node.value):
                self._report(rule, why, node.lineno + line - 1)
        elif isinstance(node, ast.JoinedStr):
            text = "".join(
                v.value if isinstance(v, ast.Constant) and isinstance(v.value, str) else "0"
                for v in node.values
            )
            if looks_native(text):
                for rule, why, line in check_native(text):
                    self._report(rule, why, node.lineno + line - 1)
        self._children(node)

    def _call(self, node: ast.Call) -> None:
        if constant_getattr(node, self._local) is not None:
            owner, attribute = constant_getattr(node, self._local)  # type: ignore[misc]
            self._expression(owner, aliased=True)
            self._attribute_name(attribute, node.lineno, owner)
            for extra in node.args[2:]:
                self._expression(extra)
            return
        if resolve(node.func, self._local) == "builtins.hasattr" and len(node.args) == 2:
            self._expression(node.args[0], aliased=True)
            return
        if isinstance(node.func, ast.Attribute) and resolve(node.func, self._local) is None:
            self._attribute_name(node.func.attr, node.lineno, node.func.value, called=True)
            self._expression(node.func.value)
        else:
            self._expression(node.func)
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self._expression(argument)

    def _attribute(self, node: ast.Attribute) -> None:
        self._attribute_name(node.attr, node.lineno, node.value)

    def _attribute_name(self, name: str, line: int, owner: ast.expr, called: bool = False) -> None:
        if name in allowed.FRAME_ATTRIBUTES:
            self._report("dunder", f"{name} reaches into frames or code objects", line)
        elif _is_dunder(name) and name not in allowed.DUNDERS:
            self._report("dunder", f"{name} reaches behind an object", line)
        elif not self._in_pattern and not self._in_kernel:
            sure = is_tensor(owner, self._local)
            computes = allowed.tensor_compute_methods()
            limit = name in ("max", "min") and not called  # of torch.finfo
            if name in computes and (sure or not (limit or name in allowed.ALSO_METHODS_OF_OTHERS)):
                self._report("torch-compute", f"tensor method .{name} outside pattern", line)

    def _operator(self, node: ast.BinOp | ast.UnaryOp | ast.Compare) -> None:
        if isinstance(node, ast.BinOp):
            operands = [node.left, node.right]
            if isinstance(node.op, ast.MatMult) and not self._in_pattern and not self._in_kernel:
                self._report("torch-compute", "the @ operator multiplies matrices", node.lineno)
                return
        else:
            operands = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, *node.comparators]
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                return
            if isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
                return
        if any(self._computes(operand) for operand in operands):
            self._report("torch-compute", "arithmetic on a tensor", node.lineno)

    def _computes(self, node: ast.expr) -> bool:
        return not self._in_pattern and not self._in_kernel and is_tensor(node, self._local)

    # ---- what a dotted origin may be

    def _dotted(self, dotted: str, line: int, *, imported: bool = False, aliased: bool = False) -> None:
        root, _, rest = dotted.partition(".")
        if root == "builtins":
            if rest in allowed.FORBIDDEN_BUILTINS or (rest == "getattr" and not imported):
                why = "looks up what the source does not show" if rest == "getattr" else "is not for passes"
                self._report("forbidden-builtin", f"{rest} {why}", line)
            return
        for part in rest.split("."):
            if (_is_dunder(part) and part not in allowed.DUNDERS) or part in allowed.FRAME_ATTRIBUTES:
                self._report("dunder", f"{dotted} reaches behind an object", line)
                return
        if root == SELF:
            return
        if root in allowed.ONLY:
            if not rest and not imported and not aliased:
                self._report("module-as-value", f"the module {dotted} is used as a value", line)
            elif rest and rest.split(".")[0] not in allowed.ONLY[root]:
                self._report("forbidden-name", f"{dotted} is not for passes", line)
            return
        hidden = set(rest.split(".")) & allowed.FORBIDDEN_MODULES
        if (
            hidden
            and root not in ("math", "cmath")
            and not (root == "torch" and hidden <= {"random", "numpy"})
        ):
            self._report("forbidden-import", f"{dotted} reaches the module {min(hidden)}", line)
        elif root == "pass_bench":
            self._harness(dotted, line)
        elif root == "torch":
            self._torch(rest, line, bare=not imported and not aliased)
        elif not rest and not imported and not aliased and root in allowed.IMPORTS:
            self._report("module-as-value", f"the module {dotted} is used as a value", line)

    def _harness(self, dotted: str, line: int) -> None:
        parts = dotted.split(".")
        public = len(parts) <= 2 or (
            parts[1] == "kernels" and not any(part.startswith("_") for part in parts)
        )
        if len(parts) > 1 and (parts[1] != "kernels" or not public or len(parts) > 4):
            self._report("harness-import", f"{dotted}: a pass may use pass_bench.kernels only", line)

    def _torch(self, rest: str, line: int, bare: bool) -> None:
        if not rest or rest in ("nn", "cuda", "nn.functional", "_C", "ops", "fx", "version"):
            if bare and not self._in_pattern:
                self._report(
                    "module-as-value", f"the module torch.{rest} is used as a value".replace(". ", " "), line
                )
            return
        if any(rest == name or rest.startswith(f"{name}.") for name in STREAM_NAMES):
            self._report("stream", f"torch.{rest}: a pass runs on the stream it is called on", line)
        elif rest.startswith(allowed.TORCH_STATE):
            self._report("torch-state", f"torch.{rest} changes state that eager shares", line)
        elif not self._in_pattern and not _torch_allowed(rest):
            self._report("torch-compute", f"torch.{rest} outside pattern", line)


STREAM_NAMES = allowed.STREAMS


def _torch_allowed(rest: str) -> bool:
    if rest in allowed.TORCH_NAMES or rest.startswith(allowed.TORCH_PREFIXES):
        return True
    head, _, method = rest.rpartition(".")
    if head == "Tensor":
        return method in allowed.TENSOR_METHODS
    prefixes = {name for name in allowed.TORCH_NAMES if "." not in name or name.startswith("cuda.")}
    attribute_of = head in prefixes and head not in allowed.ALLOCATORS  # torch.float32.itemsize
    return attribute_of or any(name.startswith(f"{rest}.") for name in allowed.TORCH_NAMES)


def is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> bool:
    """Whether a function is compiled by Triton."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if resolve(called, scope) in ("triton.jit", "triton.runtime.jit.jit"):
            return True
    return False


def referenced(node: ast.AST, scope: Scope, module: str) -> Iterator[str]:
    """Dotted names of the pass_dir's own functions that a piece of code mentions."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name | ast.Attribute):
            dotted = resolve(inner, scope)
            if dotted is not None and dotted.startswith(f"{SELF}."):
                yield dotted


def _bound(node: ast.AST) -> ast.expr | None:
    """What a loop, a with-item or a comprehension clause assigns to: an attribute of a module too."""
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return node.target
    return node.optional_vars if isinstance(node, ast.withitem) else None


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and len(name) > 4


def _is_main_guard(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.left, ast.Name)
        and node.test.left.id == "__name__"
        and len(node.test.ops) == 1
        and isinstance(node.test.ops[0], ast.Eq)
        and isinstance(node.test.comparators[0], ast.Constant)
        and node.test.comparators[0].value == "__main__"
        and not node.orelse
    )

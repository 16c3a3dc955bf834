"""Generate the C++ between Python's calling convention and a pass author's kernel."""

from __future__ import annotations

from pass_bench.kernels.signature import ELEMENT_DTYPES, Parameter, Signature

CPP_TYPES = {"float32": "float", "float64": "double", "float16": "pn::half", "bfloat16": "pn::bf16"}
# DLPack's (code, bits) of each dtype.
DLPACK_CODES = {
    "float16": (2, 16),
    "bfloat16": (4, 16),
    "float32": (2, 32),
    "float64": (2, 64),
    "int8": (0, 8),
    "int16": (0, 16),
    "int32": (0, 32),
    "int64": (0, 64),
    "uint8": (1, 8),
    "bool": (6, 8),
}
_ELEMENT_SPELLING = {"half": "pn::half", "bf16": "pn::bf16"}


def full_source(source: str, signature: Signature, dtypes: tuple[str, ...]) -> str:
    """The translation unit: the author's source under its own line numbers, then the stub."""
    return f'#include "pn_kernel.h"\n#line 1 "{signature.name}.cpp"\n{source}\n' + stub(signature, dtypes)


def stub(signature: Signature, dtypes: tuple[str, ...]) -> str:
    """A CPython extension module `pn_module` with `call(*args)` and `bind(...)`."""
    parameters = signature.parameters
    lines = [
        '#line 1 "generated_stub.cpp"',
        '#include "pn_stub.h"',
        "static PyObject* pn_call(PyObject*, PyObject* const* args, Py_ssize_t count) {",
        f"  if (count != {len(parameters)}) {{",
        f'    PyErr_Format(PyExc_TypeError, "{signature.name} takes {len(parameters)} arguments, got %zd",',
        "                 count);",
        "    return nullptr;",
        "  }",
    ]
    for index, parameter in enumerate(parameters):
        lines += _read(index, parameter, _where(signature, index))
    if signature.generic:
        first = next(i for i, p in enumerate(parameters) if p.element == "T")
        lines.append(f"  switch (pn::dtype_id(a{first})) {{")
        for dtype in dtypes:
            lines.append(f"    case {_dtype_id(dtype)}: {{")
            lines += ["    " + line for line in _invoke(signature, dtype)]
            lines += ["      break;", "    }"]
        lines += [
            "    default:",
            f'      PyErr_Format(PyExc_TypeError, "{_where(signature, first)} is %s, expected one of '
            f'{", ".join(dtypes)}", pn::dtype_name(pn::dtype_id(a{first})));',
            "      return nullptr;",
            "  }",
        ]
    else:
        lines += _invoke(signature, None)
    lines += [
        "  Py_RETURN_NONE;",
        "}",
        "static PyMethodDef pn_methods[] = {",
        '  {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(pn_call)), METH_FASTCALL,',
        "   nullptr},",
        '  {"bind", pn::bind, METH_VARARGS, nullptr},',
        "  {nullptr, nullptr, 0, nullptr}};",
        'static PyModuleDef pn_definition = {PyModuleDef_HEAD_INIT, "pn_module", nullptr, -1, pn_methods,',
        "                                    nullptr, nullptr, nullptr, nullptr};",
        "PyMODINIT_FUNC PyInit_pn_module() { return PyModule_Create(&pn_definition); }",
        "",
    ]
    return "\n".join(lines)


def _where(signature: Signature, index: int) -> str:
    return f"{signature.name}: argument {index + 1} ({signature.parameters[index].name})"


def _dtype_id(dtype: str) -> str:
    code, bits = DLPACK_CODES[dtype]
    return f"pn::dtype_id({code}, {bits})"


def _read(index: int, parameter: Parameter, where: str) -> list[str]:
    """Statements that turn args[index] into a local a<index>, with every check that needs no dtype."""
    fail = "return nullptr;"
    match parameter.kind:
        case "pointer":
            return [
                f"  pn::tensor_arg a{index};",
                f'  if (!pn::read_tensor(args[{index}], "{where}", a{index})'
                f' || !pn::check_contiguous(a{index}, "{where}")) {fail}',
            ]
        case "view":
            return [
                f"  pn::tensor_arg a{index};",
                f'  if (!pn::read_tensor(args[{index}], "{where}", a{index})) {fail}',
            ]
        case "list":
            return [
                f"  void* p{index}[pn::MAX_LIST];",
                f"  std::uint16_t d{index}[pn::MAX_LIST];",
                f"  pn::i64 n{index};",
                f'  if (!pn::read_list(args[{index}], "{where}", p{index}, d{index}, n{index})) {fail}',
            ]
        case "int64":
            return [f'  std::int64_t a{index}; if (!pn::read_int(args[{index}], "{where}", a{index})) {fail}']
        case "int32":
            return [
                f'  std::int32_t a{index}; if (!pn::read_int32(args[{index}], "{where}", a{index})) {fail}'
            ]
        case "bool":
            return [
                f"  const int a{index} = PyObject_IsTrue(args[{index}]);",
                f"  if (a{index} < 0) {fail}",
            ]
        case "float32" | "float64":
            return [f'  double a{index}; if (!pn::read_float(args[{index}], "{where}", a{index})) {fail}']


def _invoke(signature: Signature, dtype: str | None) -> list[str]:
    """Check the dtypes left to check and call the kernel with `T` = dtype."""
    checks, arguments = [], []
    for index, parameter in enumerate(signature.parameters):
        where = _where(signature, index)
        if not parameter.is_tensor:
            scalar = {"float32": "static_cast<float>(a{})", "bool": "a{} != 0"}
            arguments.append(scalar.get(parameter.kind, "a{}").format(index))
            continue
        wanted = dtype if parameter.element == "T" else ELEMENT_DTYPES[parameter.element]
        assert wanted is not None
        spelling = _ELEMENT_SPELLING.get(parameter.element, parameter.element)
        element = CPP_TYPES[wanted] if parameter.element == "T" else spelling
        qualified = f"const {element}" if parameter.const else element
        if parameter.kind == "list":
            same = f'pn::check_dtypes(d{index}, n{index}, "{where}", {_dtype_id(wanted)})'
            checks.append(f"  if (!{same}) return nullptr;")
            arguments.append(
                f"pn::list<{qualified}>{{reinterpret_cast<{qualified}* const*>(p{index}), n{index}}}"
            )
            continue
        checks.append(f'  if (!pn::check_dtype(a{index}, "{where}", {_dtype_id(wanted)})) return nullptr;')
        if parameter.kind == "view":
            checks.append(
                f"  pn::view<{qualified}, {parameter.rank}> v{index};"
                f' if (!pn::make_view(a{index}, "{where}", v{index})) return nullptr;'
            )
            arguments.append(f"v{index}")
        else:
            arguments.append(f"static_cast<{qualified}*>(a{index}.t.data)")
    template = f"<{CPP_TYPES[dtype]}>" if dtype else ""
    return [*checks, f"  ::{signature.name}{template}({', '.join(arguments)});"]

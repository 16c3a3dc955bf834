// One CUDA launch from Python arguments: reads and checks them as the signature says, packs them, calls the driver.
#include "pn_stub.h"

namespace {

// One parameter of the signature, as pass_bench/kernels/cuda.py packs it.
struct spec { char kind; std::uint8_t code, bits, rank; };

using launch_fn = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
launch_fn driver_launch = nullptr;

constexpr int MAX_PARAMETERS = 48, MAX_RANK = 8, MAX_CUDA_LIST = 16;

union slot {
  void* pointer;
  std::int64_t i64;
  std::int32_t i32;
  float f32;
  double f64;
  bool flag;
  struct { void* data; std::int64_t sizes_and_strides[2 * MAX_RANK]; } view;
  struct { void* data[MAX_CUDA_LIST]; std::int64_t count; } list;
};

bool read_cuda(PyObject* object, const char* where, int device, const spec& s, pn::tensor_arg& a) {
  if (!pn::read_any_tensor(object, where, a)) return false;
  if (a.t.device.type != 2 || a.t.device.id != device) {
    PyErr_Format(PyExc_ValueError, "%s is not on the current device cuda:%d", where, device);
    return false;
  }
  return pn::check_dtype(a, where, pn::dtype_id(s.code, s.bits));
}

bool read(PyObject* object, const char* where, int device, const spec& s, slot& out) {
  pn::tensor_arg a;
  double number;
  switch (s.kind) {
    case 'p':
      if (!read_cuda(object, where, device, s, a) || !pn::check_contiguous(a, where)) return false;
      out.pointer = a.t.data;
      return true;
    case 'v': {
      if (!read_cuda(object, where, device, s, a)) return false;
      if (a.t.ndim != s.rank) {
        PyErr_Format(PyExc_ValueError, "%s has %d dimensions, expected %d", where, static_cast<int>(a.t.ndim), s.rank);
        return false;
      }
      out.view.data = a.t.data;
      std::int64_t step = 1;
      for (int i = s.rank - 1; i >= 0; --i) {
        out.view.sizes_and_strides[i] = a.t.shape[i];
        out.view.sizes_and_strides[s.rank + i] = a.t.strides ? a.t.strides[i] : step;
        step *= a.t.shape[i];
      }
      return true;
    }
    case 'l': {
      if (!PyTuple_Check(object) && !PyList_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s is a %s, expected a list or tuple of tensors", where, Py_TYPE(object)->tp_name);
        return false;
      }
      out.list.count = PySequence_Fast_GET_SIZE(object);
      if (out.list.count > MAX_CUDA_LIST) {
        PyErr_Format(PyExc_ValueError, "%s has more than %d tensors", where, MAX_CUDA_LIST);
        return false;
      }
      for (std::int64_t i = 0; i < out.list.count; ++i) {
        if (!read_cuda(PySequence_Fast_GET_ITEM(object, i), where, device, s, a) || !pn::check_contiguous(a, where))
          return false;
        out.list.data[i] = a.t.data;
      }
      return true;
    }
    case 'q': return pn::read_int(object, where, out.i64);
    case 'i': return pn::read_int32(object, where, out.i32);
    case 'f':
      if (!pn::read_float(object, where, number)) return false;
      out.f32 = static_cast<float>(number);
      return true;
    case 'd': return pn::read_float(object, where, out.f64);
    case '?': {
      const int truth = PyObject_IsTrue(object);
      out.flag = truth > 0;
      return truth >= 0;
    }
    default: PyErr_Format(PyExc_SystemError, "unknown parameter kind %c", s.kind); return false;
  }
}

// launch(function, device, stream, shared, (gx, gy, gz, bx, by, bz), spec bytes, places, args)
PyObject* launch(PyObject*, PyObject* const* in, Py_ssize_t count) {
  if (count != 8) {
    PyErr_SetString(PyExc_SystemError, "launch takes 8 arguments");
    return nullptr;
  }
  void* function = PyLong_AsVoidPtr(in[0]);
  const int device = static_cast<int>(PyLong_AsLong(in[1]));
  void* stream = PyLong_AsVoidPtr(in[2]);
  const unsigned shared = static_cast<unsigned>(PyLong_AsUnsignedLong(in[3]));
  unsigned dims[6];
  if (PyErr_Occurred() || !PyTuple_Check(in[4]) || PyTuple_GET_SIZE(in[4]) != 6) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "grid and block must be ints or tuples of up to 3 ints");
    return nullptr;
  }
  for (int i = 0; i < 6; ++i) {
    dims[i] = static_cast<unsigned>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(in[4], i)));
    if (PyErr_Occurred()) return nullptr;
  }
  const spec* specs = reinterpret_cast<const spec*>(PyBytes_AS_STRING(in[5]));
  const Py_ssize_t parameters = PyBytes_GET_SIZE(in[5]) / static_cast<Py_ssize_t>(sizeof(spec));
  PyObject *places = in[6], *args = in[7];
  if (PyTuple_GET_SIZE(args) != parameters) {
    PyErr_Format(PyExc_TypeError, "the kernel takes %zd arguments, got %zd", parameters, PyTuple_GET_SIZE(args));
    return nullptr;
  }
  slot slots[MAX_PARAMETERS];
  void* pointers[MAX_PARAMETERS];
  for (Py_ssize_t i = 0; i < parameters; ++i) {
    const char* where = PyUnicode_AsUTF8(PyTuple_GET_ITEM(places, i));
    if (!where || !read(PyTuple_GET_ITEM(args, i), where, device, specs[i], slots[i])) return nullptr;
    pointers[i] = &slots[i];
  }
  if (dims[0] == 0 || dims[1] == 0 || dims[2] == 0) Py_RETURN_NONE;  // nothing to do for an empty tensor
  const int error = driver_launch(function, dims[0], dims[1], dims[2], dims[3], dims[4], dims[5], shared, stream, pointers, nullptr);
  if (error) {
    PyErr_Format(PyExc_RuntimeError, "cuLaunchKernel failed with CUDA error %d (grid %u, %u, %u, block %u, %u, %u, shared %u)",
                 error, dims[0], dims[1], dims[2], dims[3], dims[4], dims[5], shared);
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* set_driver(PyObject*, PyObject* address) {
  driver_launch = reinterpret_cast<launch_fn>(PyLong_AsVoidPtr(address));
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launch)), METH_FASTCALL, nullptr},
    {"set_driver", set_driver, METH_O, nullptr},
    {"bind", pn::bind, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "pn_module", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_pn_module() { return PyModule_Create(&definition); }

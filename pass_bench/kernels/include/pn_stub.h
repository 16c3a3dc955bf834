// The way from Python arguments to a C++ kernel: tensors are read through DLPack's C functions where torch has
// them (2.10 and later, some 20 ns a tensor), through tensor methods otherwise.
#pragma once

#include <Python.h>

#include <cstdint>
#include <cstdio>

#include "pn_kernel.h"

namespace pn {

// The part of DLPack's stable C layout (version 1) that is read here.
struct dl_device { std::int32_t type, id; };
struct dl_dtype { std::uint8_t code, bits; std::uint16_t lanes; };
struct dl_tensor {
  void* data;
  dl_device device;
  std::int32_t ndim;
  dl_dtype dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct dl_api {
  std::uint32_t major, minor;
  dl_api* prev;
  void* managed_tensor_allocator;
  void* managed_tensor_from_py_object;
  void* managed_tensor_to_py_object;
  int (*tensor_from_py_object)(void* object, dl_tensor* out);
  void* current_work_stream;
};

using threads_fn = int (*)();
static const dl_api* api = nullptr;
static threads_fn torch_threads = nullptr;
static PyObject* describe = nullptr;     // fallback: tensor -> (pointer, code, bits, device type, id, shape, strides)
static PyTypeObject* tensor_type = nullptr;

int max_threads() { return torch_threads ? torch_threads() : omp_get_max_threads(); }

constexpr int MAX_DIMS = 16;

struct tensor_arg {
  dl_tensor t;
  std::int64_t shape[MAX_DIMS], strides[MAX_DIMS];  // used by the fallback only
};

constexpr std::uint16_t dtype_id(std::uint8_t code, std::uint8_t bits) { return static_cast<std::uint16_t>(code << 8 | bits); }
inline std::uint16_t dtype_id(const tensor_arg& a) { return dtype_id(a.t.dtype.code, a.t.dtype.bits); }

inline const char* dtype_name(std::uint16_t id) {
  switch (id) {
    case dtype_id(2, 16): return "float16";
    case dtype_id(4, 16): return "bfloat16";
    case dtype_id(2, 32): return "float32";
    case dtype_id(2, 64): return "float64";
    case dtype_id(0, 8): return "int8";
    case dtype_id(0, 16): return "int16";
    case dtype_id(0, 32): return "int32";
    case dtype_id(0, 64): return "int64";
    case dtype_id(1, 8): return "uint8";
    case dtype_id(6, 8): return "bool";
    default: return "of another dtype";
  }
}

inline bool read_slow(PyObject* object, tensor_arg& a) {
  PyObject* d = PyObject_CallOneArg(describe, object);
  if (!d) return false;
  unsigned long long pointer;
  int code, bits, device, id;
  PyObject *shape, *strides;
  bool ok = PyArg_ParseTuple(d, "KiiiiO!O!", &pointer, &code, &bits, &device, &id, &PyTuple_Type, &shape, &PyTuple_Type, &strides);
  if (ok) {
    const Py_ssize_t n = PyTuple_GET_SIZE(shape);
    ok = n <= MAX_DIMS;
    if (!ok) PyErr_Format(PyExc_ValueError, "a tensor of more than %d dimensions", MAX_DIMS);
    for (Py_ssize_t i = 0; ok && i < n; ++i) {
      a.shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
      a.strides[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i));
    }
    a.t = {reinterpret_cast<void*>(pointer), {device, id}, static_cast<std::int32_t>(n),
           {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1}, a.shape, a.strides, 0};
  }
  Py_DECREF(d);
  return ok && !PyErr_Occurred();
}

// Reads a tensor of any device.
inline bool read_any_tensor(PyObject* object, const char* where, tensor_arg& a) {
  const bool plain = Py_TYPE(object) == tensor_type;  // a subclass may hold no data: its own methods decide
  if (!plain && !PyObject_TypeCheck(object, tensor_type)) {
    PyErr_Format(PyExc_TypeError, "%s is a %s, expected a tensor", where, Py_TYPE(object)->tp_name);
    return false;
  }
  bool ok = false;
  if (api && plain) {
    ok = api->tensor_from_py_object(object, &a.t) == 0;
    if (!ok) PyErr_Clear();  // a tensor that requires grad, say: the methods below read it
  }
  if (!ok && !read_slow(object, a)) return false;
  a.t.data = static_cast<char*>(a.t.data) + a.t.byte_offset;
  return true;
}

inline bool read_tensor(PyObject* object, const char* where, tensor_arg& a) {
  if (!read_any_tensor(object, where, a)) return false;
  if (a.t.device.type == 1) return true;
  PyErr_Format(PyExc_ValueError, "%s is not on the CPU", where);
  return false;
}

inline bool check_dtype(const tensor_arg& a, const char* where, std::uint16_t expected) {
  if (dtype_id(a) == expected) return true;
  PyErr_Format(PyExc_TypeError, "%s is %s, expected %s", where, dtype_name(dtype_id(a)), dtype_name(expected));
  return false;
}

inline bool check_contiguous(const tensor_arg& a, const char* where) {
  std::int64_t expected = 1;
  bool contiguous = true;
  for (int i = a.t.ndim - 1; i >= 0; --i) {
    if (a.t.shape[i] == 0) return true;
    if (a.t.shape[i] == 1) continue;
    contiguous = contiguous && (!a.t.strides || a.t.strides[i] == expected);
    expected *= a.t.shape[i];
  }
  if (contiguous) return true;
  char text[256];
  int used = std::snprintf(text, sizeof text, "shape (");
  for (int i = 0; i < a.t.ndim && used < 200; ++i)
    used += std::snprintf(text + used, sizeof text - used, i ? ", %lld" : "%lld", static_cast<long long>(a.t.shape[i]));
  used += std::snprintf(text + used, sizeof text - used, "), strides (");
  for (int i = 0; i < a.t.ndim && used < 240; ++i)
    used += std::snprintf(text + used, sizeof text - used, i ? ", %lld" : "%lld", static_cast<long long>(a.t.strides[i]));
  PyErr_Format(PyExc_ValueError, "%s is not contiguous: %s); pass x.contiguous() or declare it as view<T, N>", where, text);
  return false;
}

template <typename T, int N> inline bool make_view(const tensor_arg& a, const char* where, view<T, N>& v) {
  if (a.t.ndim != N) {
    PyErr_Format(PyExc_ValueError, "%s has %d dimensions, expected %d", where, static_cast<int>(a.t.ndim), N);
    return false;
  }
  v.data = static_cast<T*>(a.t.data);
  std::int64_t step = 1;
  for (int i = N - 1; i >= 0; --i) {
    v.sizes[i] = a.t.shape[i];
    v.strides[i] = a.t.strides ? a.t.strides[i] : step;
    step *= a.t.shape[i];
  }
  return true;
}

constexpr int MAX_LIST = 64;

inline bool read_list(PyObject* object, const char* where, void** pointers, std::uint16_t* dtypes, i64& count) {
  if (!PyTuple_Check(object) && !PyList_Check(object)) {
    PyErr_Format(PyExc_TypeError, "%s is a %s, expected a list or tuple of tensors", where, Py_TYPE(object)->tp_name);
    return false;
  }
  count = PySequence_Fast_GET_SIZE(object);
  if (count > MAX_LIST) {
    PyErr_Format(PyExc_ValueError, "%s has %zd tensors, at most %d are supported", where, count, MAX_LIST);
    return false;
  }
  for (i64 i = 0; i < count; ++i) {
    tensor_arg a;
    if (!read_tensor(PySequence_Fast_GET_ITEM(object, i), where, a) || !check_contiguous(a, where)) return false;
    pointers[i] = a.t.data;
    dtypes[i] = dtype_id(a);
  }
  return true;
}
inline bool check_dtypes(const std::uint16_t* dtypes, i64 count, const char* where, std::uint16_t expected) {
  for (i64 i = 0; i < count; ++i) {
    if (dtypes[i] == expected) continue;
    PyErr_Format(PyExc_TypeError, "%s has a tensor of %s, expected %s", where, dtype_name(dtypes[i]), dtype_name(expected));
    return false;
  }
  return true;
}

inline bool read_int(PyObject* object, const char* where, std::int64_t& out) {
  out = PyLong_AsLongLong(object);
  if (out != -1 || !PyErr_Occurred()) return true;
  PyErr_Format(PyExc_TypeError, "%s is a %s, expected an int", where, Py_TYPE(object)->tp_name);
  return false;
}
inline bool read_int32(PyObject* object, const char* where, std::int32_t& out) {
  std::int64_t wide;
  if (!read_int(object, where, wide)) return false;
  out = static_cast<std::int32_t>(wide);
  if (out == wide) return true;
  PyErr_Format(PyExc_OverflowError, "%s does not fit into 32 bits", where);
  return false;
}
inline bool read_float(PyObject* object, const char* where, double& out) {
  out = PyFloat_AsDouble(object);
  if (out != -1.0 || !PyErr_Occurred()) return true;
  PyErr_Format(PyExc_TypeError, "%s is a %s, expected a float", where, Py_TYPE(object)->tp_name);
  return false;
}

inline PyObject* bind(PyObject*, PyObject* args) {
  PyObject* capsule;
  unsigned long long threads;
  PyObject* type;
  if (!PyArg_ParseTuple(args, "OKOO", &capsule, &threads, &describe, &type)) return nullptr;
  Py_INCREF(describe);
  Py_INCREF(type);
  tensor_type = reinterpret_cast<PyTypeObject*>(type);
  torch_threads = reinterpret_cast<threads_fn>(threads);
  if (capsule != Py_None) {
    api = static_cast<const dl_api*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
    if (!api) return nullptr;
    while (api && api->major != 1) api = api->prev;
  }
  Py_RETURN_NONE;
}

}  // namespace pn

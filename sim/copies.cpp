// Copies and fills, with true contents. Everything is done at once, whatever stream it is put on; on a captured stream
// it becomes a node, and is done by each launch of the graph.
#include <cstring>

#include "arrays.hpp"
#include "capture.hpp"
#include "driver/cuda_copy_abi.hpp"
#include "observer.hpp"
#include "stream_time.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

CUresult move_bytes(std::uint64_t target, std::uint64_t source, std::uint64_t size, const char* function) {
  if (const CUresult state = ready(size, function); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (size == 0) return CUDA_SUCCESS;
  if (target == 0 || source == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!touch(target, size)) return CUDA_ERROR_OPERATING_SYSTEM;  // the host has no memory for what is written
  std::memmove(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), size);
  return CUDA_SUCCESS;
}

void describe_copy(Operation& operation, std::uint64_t target, std::uint64_t source, std::uint64_t size) {
  operation.address = target;
  operation.source = source;
  operation.bytes = size;
  operation.source_device = operation.target_device = current() != nullptr ? ordinal_of(current()->device) : 0;
  operation.memory = memory_at(target, nullptr, &operation.target_device);
  operation.source_memory = memory_at(source, nullptr, &operation.source_device);
}

void describe_stream(Operation& operation, CUstream stream) {
  operation.stream = stream;
  operation.is_async = true;
  operation.is_captured = is_captured(stream);
}

CUresult move(std::uint64_t target, std::uint64_t source, std::uint64_t size, const char* function) {
  return observed(
      Work::kCopy, function, [&](Operation& operation) { describe_copy(operation, target, source, size); },
      [&] { return move_bytes(target, source, size, function); });
}

/// One row, between any two places.
CUDA_MEMCPY3D row(std::uint64_t target, std::uint64_t source, std::size_t size) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = source;
  copy.dstDevice = target;
  copy.WidthInBytes = size;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D body(const CUDA_MEMCPY2D& plane) {
  CUDA_MEMCPY3D copy{};
  copy.srcXInBytes = plane.srcXInBytes;
  copy.srcY = plane.srcY;
  copy.srcMemoryType = plane.srcMemoryType;
  copy.srcHost = plane.srcHost;
  copy.srcDevice = plane.srcDevice;
  copy.srcArray = plane.srcArray;
  copy.srcPitch = plane.srcPitch;
  copy.dstXInBytes = plane.dstXInBytes;
  copy.dstY = plane.dstY;
  copy.dstMemoryType = plane.dstMemoryType;
  copy.dstHost = plane.dstHost;
  copy.dstDevice = plane.dstDevice;
  copy.dstArray = plane.dstArray;
  copy.dstPitch = plane.dstPitch;
  copy.WidthInBytes = plane.WidthInBytes;
  copy.Height = plane.Height;
  copy.Depth = 1;
  return copy;
}

/// Between two contexts: the same places, since all addresses are one space.
CUDA_MEMCPY3D body(const CUDA_MEMCPY3D_PEER& peer) {
  CUDA_MEMCPY3D copy{};
  static_assert(sizeof copy == sizeof peer);
  std::memcpy(&copy, &peer, sizeof copy);
  copy.reserved0 = copy.reserved1 = nullptr;  // where the contexts stood
  return copy;
}

const CUDA_MEMCPY3D& body(const CUDA_MEMCPY3D& copy) { return copy; }

CUresult move_on(CUstream stream, std::uint64_t target, std::uint64_t source, std::uint64_t size,
                 const char* function) {
  const auto describe = [&](Operation& operation) {
    describe_copy(operation, target, source, size);
    describe_stream(operation, stream);
  };
  return observed(Work::kCopy, function, describe, [&] {
    if (size == 0 ? capture_work(stream, CU_GRAPH_NODE_TYPE_MEMCPY) : capture_copy(stream, row(target, source, size))) {
      return CUDA_SUCCESS;
    }
    return move_bytes(target, source, size, function);
  });
}

template <typename Value>
CUresult fill_rows(std::uint64_t target, std::size_t pitch, Value value, std::size_t width, std::size_t height,
                   const char* function) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  if (target == 0 || target % sizeof(Value) != 0 || (height > 1 && pitch < width * sizeof(Value)))
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t row = 0; row < height; ++row) {
    const std::uint64_t start = target + row * pitch;
    if (!touch(start, width * sizeof(Value))) return CUDA_ERROR_OPERATING_SYSTEM;
    auto* cells = reinterpret_cast<Value*>(start);
    for (std::size_t i = 0; i < width; ++i) cells[i] = value;
  }
  return CUDA_SUCCESS;
}

template <typename Value>
void describe_fill(Operation& operation, std::uint64_t target, std::size_t pitch, Value value, std::size_t width,
                   std::size_t height) {
  operation.address = target;
  operation.value = value;
  operation.pitch = pitch;
  operation.width = width;
  operation.height = height;
  operation.bytes = width * height * sizeof(Value);
  operation.memory = memory_at(target);
}

template <typename Value>
CUresult fill(std::uint64_t target, std::size_t pitch, Value value, std::size_t width, std::size_t height,
              const char* function) {
  return observed(
      Work::kFill, function,
      [&](Operation& operation) { describe_fill(operation, target, pitch, value, width, height); },
      [&] { return fill_rows(target, pitch, value, width, height, function); });
}

template <typename Value>
CUresult fill_on(CUstream stream, std::uint64_t target, std::size_t pitch, Value value, std::size_t width,
                 std::size_t height, const char* function) {
  const auto describe = [&](Operation& operation) {
    describe_fill(operation, target, pitch, value, width, height);
    describe_stream(operation, stream);
  };
  return observed(Work::kFill, function, describe, [&] {
    if (width == 0 || height == 0 ? capture_work(stream, CU_GRAPH_NODE_TYPE_MEMSET)
                                  : capture_fill(stream, {target, pitch, value, sizeof(Value), width, height})) {
      return CUDA_SUCCESS;
    }
    return fill_rows(target, pitch, value, width, height, function);
  });
}

/// One side of a copy in rows: where a row of a slice begins.
struct Place {
  std::uint64_t start = 0, pitch = 0, slice = 0;
  [[nodiscard]] std::uint64_t row(std::size_t y, std::size_t z) const { return start + z * slice + y * pitch; }
};

bool place_of(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array, std::size_t x, std::size_t y,
              std::size_t z, std::size_t pitch, std::size_t height, std::size_t width, Place& out) {
  if (type == CU_MEMORYTYPE_ARRAY) {
    ArrayLayout layout;
    if (!layout_of(array, layout) || x + width > layout.row) return false;
    out = {layout.address, layout.row, layout.row * layout.height};
  } else {
    const std::uint64_t base = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uint64_t>(host) : device;
    const std::size_t step = pitch != 0 ? pitch : width;
    if (base == 0 || type < CU_MEMORYTYPE_HOST || type > CU_MEMORYTYPE_UNIFIED) return false;
    out = {base, step, step * (height != 0 ? height : 1)};
  }
  out.start += x + y * out.pitch + z * out.slice;
  return true;
}

template <typename Copy>
CUresult move_rows(const Copy& copy, const Place& target, const Place& source, std::size_t depth,
                   const CUstream* stream, const char* function) {
  const auto describe = [&](Operation& operation) {
    describe_copy(operation, target.start, source.start, copy.WidthInBytes * copy.Height * depth);
    operation.copy = &copy;
    if (stream != nullptr) describe_stream(operation, *stream);
  };
  return observed(Work::kCopy, function, describe, [&] {
    if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
    for (std::size_t z = 0; z < depth; ++z) {
      for (std::size_t y = 0; y < copy.Height; ++y) {
        const CUresult result = move_bytes(target.row(y, z), source.row(y, z), copy.WidthInBytes, function);
        if (result != CUDA_SUCCESS) return result;
      }
    }
    return CUDA_SUCCESS;
  });
}

/// `stream`: what it is put on; null: done before the call returns.
CUresult move_plane(const CUDA_MEMCPY2D* copy, const char* function, const CUstream* stream = nullptr) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Place target, source;
  if (!place_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcArray, copy->srcXInBytes, copy->srcY, 0,
                copy->srcPitch, 0, copy->WidthInBytes, source) ||
      !place_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray, copy->dstXInBytes, copy->dstY, 0,
                copy->dstPitch, 0, copy->WidthInBytes, target)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return move_rows(*copy, target, source, 1, stream, function);
}

template <typename Copy>
CUresult move_body(const Copy* copy, const char* function, const CUstream* stream = nullptr) {
  if (copy == nullptr || copy->srcLOD != 0 || copy->dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
  Place target, source;
  if (!place_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcArray, copy->srcXInBytes, copy->srcY,
                copy->srcZ, copy->srcPitch, copy->srcHeight, copy->WidthInBytes, source) ||
      !place_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray, copy->dstXInBytes, copy->dstY,
                copy->dstZ, copy->dstPitch, copy->dstHeight, copy->WidthInBytes, target)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return move_rows(*copy, target, source, copy->Depth, stream, function);
}

/// A place in an array by its offset in bytes.
bool in_array(CUarray array, std::size_t offset, std::size_t size, std::uint64_t& out) {
  ArrayLayout layout;
  if (!layout_of(array, layout) || offset + size > layout.row * layout.height * layout.depth) return false;
  out = layout.address + offset;
  return true;
}

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

}  // namespace
}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;

// Each copy exists for the legacy default stream and for the per-thread one, and waits for it.
#define BOTH(name, twin, parameters, ...) \
  RATION_ENTRY name parameters {          \
    finish(nullptr);                      \
    __VA_ARGS__                           \
  }                                       \
  RATION_ENTRY name##twin parameters {    \
    finish(per_thread(nullptr));          \
    __VA_ARGS__                           \
  }

BOTH(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr target, const void* source, std::size_t size),
     { return move(target, number(source), size, "cuMemcpyHtoD"); })
BOTH(cuMemcpyDtoH_v2, _ptds, (void* target, CUdeviceptr source, std::size_t size),
     { return move(number(target), source, size, "cuMemcpyDtoH"); })
BOTH(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr target, CUdeviceptr source, std::size_t size),
     { return move(target, source, size, "cuMemcpyDtoD"); })
BOTH(cuMemcpy, _ptds, (CUdeviceptr target, CUdeviceptr source, std::size_t size),
     { return move(target, source, size, "cuMemcpy"); })
BOTH(cuMemcpyPeer, _ptds, (CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext, std::size_t size),
     { return move(target, source, size, "cuMemcpyPeer"); })
BOTH(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* copy), { return move_plane(copy, "cuMemcpy2D"); })
BOTH(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* copy), { return move_plane(copy, "cuMemcpy2DUnaligned"); })
BOTH(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* copy), { return move_body(copy, "cuMemcpy3D"); })
BOTH(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER* copy), { return move_body(copy, "cuMemcpy3DPeer"); })

BOTH(cuMemcpyAtoD_v2, _ptds, (CUdeviceptr target, CUarray array, std::size_t offset, std::size_t size), {
  std::uint64_t source = 0;
  return in_array(array, offset, size, source) ? move(target, source, size, "cuMemcpyAtoD") : CUDA_ERROR_INVALID_VALUE;
})
BOTH(cuMemcpyDtoA_v2, _ptds, (CUarray array, std::size_t offset, CUdeviceptr source, std::size_t size), {
  std::uint64_t target = 0;
  return in_array(array, offset, size, target) ? move(target, source, size, "cuMemcpyDtoA") : CUDA_ERROR_INVALID_VALUE;
})
BOTH(cuMemcpyHtoA_v2, _ptds, (CUarray array, std::size_t offset, const void* source, std::size_t size), {
  std::uint64_t target = 0;
  return in_array(array, offset, size, target) ? move(target, number(source), size, "cuMemcpyHtoA")
                                               : CUDA_ERROR_INVALID_VALUE;
})
BOTH(cuMemcpyAtoH_v2, _ptds, (void* target, CUarray array, std::size_t offset, std::size_t size), {
  std::uint64_t source = 0;
  return in_array(array, offset, size, source) ? move(number(target), source, size, "cuMemcpyAtoH")
                                               : CUDA_ERROR_INVALID_VALUE;
})
BOTH(cuMemcpyAtoA_v2, _ptds,
     (CUarray to, std::size_t to_offset, CUarray from, std::size_t from_offset, std::size_t size), {
       std::uint64_t target = 0, source = 0;
       return in_array(to, to_offset, size, target) && in_array(from, from_offset, size, source)
                  ? move(target, source, size, "cuMemcpyAtoA")
                  : CUDA_ERROR_INVALID_VALUE;
     })

#define BOTH_ON_STREAM(name, parameters, ...)                                    \
  RATION_ENTRY name parameters __VA_ARGS__ RATION_ENTRY name##_ptsz parameters { \
    stream = per_thread(stream);                                                 \
    __VA_ARGS__                                                                  \
  }

BOTH_ON_STREAM(cuMemcpyHtoDAsync_v2, (CUdeviceptr target, const void* source, std::size_t size, CUstream stream),
               { return move_on(stream, target, number(source), size, "cuMemcpyHtoDAsync"); })
BOTH_ON_STREAM(cuMemcpyDtoHAsync_v2, (void* target, CUdeviceptr source, std::size_t size, CUstream stream),
               { return move_on(stream, number(target), source, size, "cuMemcpyDtoHAsync"); })
BOTH_ON_STREAM(cuMemcpyDtoDAsync_v2, (CUdeviceptr target, CUdeviceptr source, std::size_t size, CUstream stream),
               { return move_on(stream, target, source, size, "cuMemcpyDtoDAsync"); })
BOTH_ON_STREAM(cuMemcpyAsync, (CUdeviceptr target, CUdeviceptr source, std::size_t size, CUstream stream),
               { return move_on(stream, target, source, size, "cuMemcpyAsync"); })
BOTH_ON_STREAM(cuMemcpyPeerAsync,
               (CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext, std::size_t size, CUstream stream),
               { return move_on(stream, target, source, size, "cuMemcpyPeerAsync"); })
BOTH_ON_STREAM(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D* copy, CUstream stream), {
  return copy != nullptr && capture_copy(stream, body(*copy)) ? CUDA_SUCCESS
                                                              : move_plane(copy, "cuMemcpy2DAsync", &stream);
})
BOTH_ON_STREAM(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D* copy, CUstream stream), {
  return copy != nullptr && capture_copy(stream, body(*copy)) ? CUDA_SUCCESS
                                                              : move_body(copy, "cuMemcpy3DAsync", &stream);
})
BOTH_ON_STREAM(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER* copy, CUstream stream), {
  return copy != nullptr && capture_copy(stream, body(*copy)) ? CUDA_SUCCESS
                                                              : move_body(copy, "cuMemcpy3DPeerAsync", &stream);
})
BOTH_ON_STREAM(cuMemcpyHtoAAsync_v2,
               (CUarray array, std::size_t offset, const void* source, std::size_t size, CUstream stream), {
                 std::uint64_t target = 0;
                 return in_array(array, offset, size, target)
                            ? move_on(stream, target, number(source), size, "cuMemcpyHtoAAsync")
                            : CUDA_ERROR_INVALID_VALUE;
               })
BOTH_ON_STREAM(cuMemcpyAtoHAsync_v2,
               (void* target, CUarray array, std::size_t offset, std::size_t size, CUstream stream), {
                 std::uint64_t source = 0;
                 return in_array(array, offset, size, source)
                            ? move_on(stream, number(target), source, size, "cuMemcpyAtoHAsync")
                            : CUDA_ERROR_INVALID_VALUE;
               })

#define FILLS(bits, type)                                                                                          \
  BOTH(cuMemsetD##bits##_v2, _ptds, (CUdeviceptr target, type value, std::size_t count),                           \
       { return fill(target, 0, value, count, 1, "cuMemsetD" #bits); })                                            \
  BOTH(cuMemsetD2D##bits##_v2, _ptds,                                                                              \
       (CUdeviceptr target, std::size_t pitch, type value, std::size_t width, std::size_t height),                 \
       { return fill(target, pitch, value, width, height, "cuMemsetD2D" #bits); })                                 \
  BOTH_ON_STREAM(cuMemsetD##bits##Async, (CUdeviceptr target, type value, std::size_t count, CUstream stream),     \
                 { return fill_on(stream, target, 0, value, count, 1, "cuMemsetD" #bits "Async"); })               \
  BOTH_ON_STREAM(                                                                                                  \
      cuMemsetD2D##bits##Async,                                                                                    \
      (CUdeviceptr target, std::size_t pitch, type value, std::size_t width, std::size_t height, CUstream stream), \
      { return fill_on(stream, target, pitch, value, width, height, "cuMemsetD2D" #bits "Async"); })
FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)

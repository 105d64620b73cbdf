// The ways of keeping physical memory alive without the handle that it was made with.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/cuda_share_abi.hpp"
#include "sim/workload/child.hpp"
#include "sim/workload/driver_calls.hpp"
#include "sim/workload/parcels.hpp"
#include "sim/workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

using Handle = CUmemGenericAllocationHandle;

struct Range {
  CUdeviceptr address;
  std::size_t size;
};
std::vector<Handle> handles;
std::vector<Range> ranges;

void release_all() {
  for (const Handle handle : handles) DRIVER(cuMemRelease)(handle);
  handles.clear();
}

CUresult map(Handle handle, std::size_t size, Range& out) {
  out.size = size;
  const CUresult result = DRIVER(cuMemAddressReserve)(&out.address, size, 0, 0, 0);
  return result == CUDA_SUCCESS ? DRIVER(cuMemMap)(out.address, size, 0, handle, 0) : result;
}
void unmap(const Range& range) {
  DRIVER(cuMemUnmap)(range.address, range.size);
  DRIVER(cuMemAddressFree)(range.address, range.size);
}

/// Maps memory, retains a second handle to it, and releases the first handle and the mapping.
CUresult retain(std::size_t size) {
  const auto properties = on_device(0);
  Handle made = 0, retained = 0;
  if (const CUresult result = DRIVER(cuMemCreate)(&made, size, &properties, 0); result != CUDA_SUCCESS) return result;
  Range range{};
  CUresult result = map(made, size, range);
  DRIVER(cuMemRelease)(made);
  if (result == CUDA_SUCCESS)
    result = DRIVER(cuMemRetainAllocationHandle)(&retained, reinterpret_cast<void*>(range.address));
  if (result == CUDA_SUCCESS) handles.push_back(retained);
  unmap(range);
  return result;
}

/// Maps memory twice, and gives up its handle and the first mapping.
CUresult map_twice(std::size_t size) {
  const auto properties = on_device(0);
  Handle made = 0;
  if (const CUresult result = DRIVER(cuMemCreate)(&made, size, &properties, 0); result != CUDA_SUCCESS) return result;
  Range first{}, second{};
  CUresult result = map(made, size, first);
  if (result == CUDA_SUCCESS) result = map(made, size, second);
  DRIVER(cuMemRelease)(made);
  unmap(first);
  if (result == CUDA_SUCCESS) ranges.push_back(second);
  return result;
}

CUresult create_and_export(std::size_t size, Handle& made, int& descriptor) {
  const auto properties = shareable();
  if (const CUresult result = DRIVER(cuMemCreate)(&made, size, &properties, 0); result != CUDA_SUCCESS) return result;
  return DRIVER(cuMemExportToShareableHandle)(&descriptor, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

/// Imports a handle twice, and releases the handle and the first import.
CUresult import_twice(std::size_t size) {
  Handle made = 0, imported[2] = {};
  int descriptor = -1;
  if (const CUresult result = create_and_export(size, made, descriptor); result != CUDA_SUCCESS) return result;
  CUresult result = CUDA_SUCCESS;
  for (Handle& one : imported) {
    if (result == CUDA_SUCCESS)
      result = DRIVER(cuMemImportFromShareableHandle)(&one, reinterpret_cast<void*>(std::intptr_t{descriptor}),
                                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  }
  ::close(descriptor);
  DRIVER(cuMemRelease)(made);
  DRIVER(cuMemRelease)(imported[0]);
  if (result == CUDA_SUCCESS) handles.push_back(imported[1]);
  return result;
}

struct Heir {
  pid_t pid;
  int gate;  // the heir ends when this is closed
};
std::vector<Heir> heirs;

/// Exports memory, and releases all of it except the descriptor that a forked child holds.
CUresult bequeath(std::size_t size) {
  Handle made = 0;
  int descriptor = -1, gate[2];
  if (const CUresult result = create_and_export(size, made, descriptor); result != CUDA_SUCCESS) return result;
  if (::pipe2(gate, O_CLOEXEC) != 0) return CUDA_ERROR_UNKNOWN;
  const pid_t heir = ::fork();
  if (heir == 0) {
    ::close(gate[1]);
    char none = 0;
    ::_exit(static_cast<int>(::read(gate[0], &none, 1)));
  }
  ::close(gate[0]);
  heirs.push_back({heir, gate[1]});
  ::close(descriptor);
  DRIVER(cuMemRelease)(made);
  return CUDA_SUCCESS;
}

void end_heirs() {
  for (const Heir& heir : heirs) ::close(heir.gate);  // all gates first: later heirs also hold those of earlier ones
  for (const Heir& heir : heirs) ::waitpid(heir.pid, nullptr, 0);
  heirs.clear();
  look_for_the_dead();
}

Child exporter;

/// Opens memory that a child took and exported. The child then gives the memory up, but does not end.
CUresult keep_what_a_child_drops(const char* form, std::size_t size) {
  if (!exporter.is_running() && !exporter.start(execute, {})) return CUDA_ERROR_UNKNOWN;
  Parcel parcel;
  CUresult result = exporter.ask(form + std::string(" ") + std::to_string(size >> 20));
  if (result == CUDA_SUCCESS) result = receive(exporter.parcels(), parcel) ? import_memory(parcel) : CUDA_ERROR_UNKNOWN;
  exporter.ask("drop");
  return result;
}

void end_exporter() {
  drop_imports();
  exporter.stop();
  look_for_the_dead();
}

}  // namespace

std::vector<Way> handle_ways() {
  return {
      {"vmm-retained", retain, release_all},
      {"vmm-mapped-twice", map_twice,
       [] {
         for (const Range& range : ranges) unmap(range);
         ranges.clear();
       }},
      {"vmm-imported-twice", import_twice, release_all},
      {"vmm-inherited", bequeath, end_heirs},
      {"vmm-dropped-by-a-child", [](std::size_t n) { return keep_what_a_child_drops("descriptor", n); }, end_exporter},
      {"ipc-dropped-by-a-child", [](std::size_t n) { return keep_what_a_child_drops("ipc", n); }, end_exporter},
  };
}

}  // namespace ration::workload

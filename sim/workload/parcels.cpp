#include "sim/workload/parcels.hpp"

#include <unistd.h>

#include <cstring>
#include <functional>
#include <vector>

#include "base/descriptor_message.hpp"
#include "sim/workload/driver_calls.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

/// Functions, each of which gives up one export or import. Each is called once.
using Drops = std::vector<std::function<void()>>;
Drops exported, imported;

void drop_all(Drops& drops) {
  for (const auto& drop : drops) drop();
  drops.clear();
}

void* handle_of(int descriptor) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)); }

}  // namespace

bool form_named(const std::string& name, Form& out) {
  if (name != "ipc" && name != "descriptor" && name != "pool") return false;
  out = name == "ipc" ? Form::kIpc : name == "pool" ? Form::kPool : Form::kDescriptor;
  return true;
}

bool send(int socket, const Parcel& parcel) { return send_message(socket, parcel, parcel.descriptor); }

bool receive(int socket, Parcel& out) {
  int descriptor = -1;  // the number in the parcel is the sender's, and has no meaning here
  if (!receive_message(socket, out, descriptor)) return false;
  out.descriptor = descriptor;
  return true;
}

CUresult export_memory(Form form, std::size_t size, Parcel& out) {
  out.form = form;
  out.descriptor = -1;
  if (form == Form::kIpc) {
    CUdeviceptr pointer = 0;
    if (const CUresult result = DRIVER(cuMemAlloc_v2)(&pointer, size); result != CUDA_SUCCESS) return result;
    exported.emplace_back([=] { DRIVER(cuMemFree_v2)(pointer); });
    return DRIVER(cuIpcGetMemHandle)(&out.bytes, pointer);
  }
  if (form == Form::kDescriptor) {
    const auto properties = shareable();
    CUmemGenericAllocationHandle handle = 0;
    if (const CUresult result = DRIVER(cuMemCreate)(&handle, size, &properties, 0); result != CUDA_SUCCESS)
      return result;
    exported.emplace_back([=] { DRIVER(cuMemRelease)(handle); });
    return DRIVER(cuMemExportToShareableHandle)(&out.descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  }
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool pool = nullptr;
  CUdeviceptr pointer = 0;
  if (const CUresult result = DRIVER(cuMemPoolCreate)(&pool, &properties); result != CUDA_SUCCESS) return result;
  exported.emplace_back([=] { DRIVER(cuMemPoolDestroy)(pool); });
  if (const CUresult result = DRIVER(cuMemAllocFromPoolAsync)(&pointer, size, pool, nullptr); result != CUDA_SUCCESS)
    return result;
  exported.back() = [=] {
    DRIVER(cuMemFreeAsync)(pointer, nullptr);
    DRIVER(cuStreamSynchronize)(nullptr);
    DRIVER(cuMemPoolDestroy)(pool);
  };
  static_assert(sizeof(CUmemPoolPtrExportData) == sizeof out.bytes);
  CUmemPoolPtrExportData data;
  const CUresult result = DRIVER(cuMemPoolExportPointer)(&data, pointer);
  std::memcpy(&out.bytes, &data, sizeof data);
  if (result != CUDA_SUCCESS) return result;
  return DRIVER(cuMemPoolExportToShareableHandle)(&out.descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

void drop_exports() { drop_all(exported); }

CUresult import_memory(Parcel& parcel) {
  CUresult result = CUDA_SUCCESS;
  CUdeviceptr pointer = 0;
  if (parcel.form == Form::kIpc) {
    result = DRIVER(cuIpcOpenMemHandle_v2)(&pointer, parcel.bytes, 1);
    if (result == CUDA_SUCCESS) imported.emplace_back([=] { DRIVER(cuIpcCloseMemHandle)(pointer); });
  } else if (parcel.form == Form::kDescriptor) {
    CUmemGenericAllocationHandle handle = 0;
    result = DRIVER(cuMemImportFromShareableHandle)(&handle, handle_of(parcel.descriptor),
                                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result == CUDA_SUCCESS) imported.emplace_back([=] { DRIVER(cuMemRelease)(handle); });
  } else {
    CUmemoryPool pool = nullptr;
    CUmemPoolPtrExportData data;
    std::memcpy(&data, &parcel.bytes, sizeof data);
    result = DRIVER(cuMemPoolImportFromShareableHandle)(&pool, handle_of(parcel.descriptor),
                                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result == CUDA_SUCCESS) result = DRIVER(cuMemPoolImportPointer)(&pointer, pool, &data);
    if (result == CUDA_SUCCESS) imported.emplace_back([=] { DRIVER(cuMemFree_v2)(pointer); });
  }
  if (parcel.descriptor >= 0) ::close(parcel.descriptor);
  parcel.descriptor = -1;
  return result;
}

void drop_imports() { drop_all(imported); }

}  // namespace ration::workload

// The other process of the sharing tests: `sim_peer SOCKET LIBRARY` does what it is told until the socket closes.
#include "peer.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "driver/cuda_share_abi.hpp"

using namespace ration::cuda;
using namespace ration::testing;

namespace {

void* library = nullptr;
#define CU(name) (reinterpret_cast<name##_t*>(::dlsym(library, #name)))

CUresult obey(Message& message, int& descriptor) {
  switch (static_cast<Order>(message.order)) {
    case Order::kAllocate:
      return CU(cuMemAlloc_v2)(reinterpret_cast<CUdeviceptr*>(&message.value), message.value);
    case Order::kFree:
      return CU(cuMemFree_v2)(message.value);
    case Order::kFreeAsync:
      return CU(cuMemFreeAsync)(message.value, nullptr);
    case Order::kIpcGet:
      return CU(cuIpcGetMemHandle)(reinterpret_cast<CUipcMemHandle*>(message.bytes), message.value);
    case Order::kIpcOpen: {
      CUipcMemHandle handle;
      std::memcpy(&handle, message.bytes, sizeof handle);
      return CU(cuIpcOpenMemHandle_v2)(reinterpret_cast<CUdeviceptr*>(&message.value), handle, 1);
    }
    case Order::kIpcClose:
      return CU(cuIpcCloseMemHandle)(message.value);
    case Order::kCreate: {
      CUmemAllocationProp properties{};
      properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
      properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
      properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
      CUmemGenericAllocationHandle handle = 0;
      const CUresult made = CU(cuMemCreate)(&handle, message.value, &properties, 0);
      message.value = handle;
      return made != CUDA_SUCCESS
                 ? made
                 : CU(cuMemExportToShareableHandle)(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    }
    case Order::kImport: {
      const CUresult result = CU(cuMemImportFromShareableHandle)(
          reinterpret_cast<CUmemGenericAllocationHandle*>(&message.value),
          reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      ::close(descriptor);
      descriptor = -1;
      return result;
    }
    case Order::kMap: {
      CUdeviceptr address = 0;
      CU(cuMemAddressReserve)(&address, message.size, 0, 0, 0);
      const CUresult result = CU(cuMemMap)(address, message.size, 0, message.value, 0);
      message.value = address;
      return result;
    }
    case Order::kUnmap:
      return CU(cuMemUnmap)(message.value, message.size);
    case Order::kRelease:
      return CU(cuMemRelease)(message.value);
    case Order::kPoolImport: {
      const CUresult result = CU(cuMemPoolImportFromShareableHandle)(
          reinterpret_cast<CUmemoryPool*>(&message.value),
          reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
      ::close(descriptor);
      descriptor = -1;
      return result;
    }
    case Order::kPoolPointer: {
      CUmemPoolPtrExportData data;
      std::memcpy(&data, message.bytes, sizeof data);
      return CU(cuMemPoolImportPointer)(reinterpret_cast<CUdeviceptr*>(&message.value),
                                        reinterpret_cast<CUmemoryPool>(message.value), &data);
    }
    case Order::kRead: {
      unsigned word = 0;
      const CUresult result = CU(cuMemcpyDtoH_v2)(&word, message.value, sizeof word);
      message.value = word;
      return result;
    }
    case Order::kWrite: {
      const unsigned word = 42;
      return CU(cuMemcpyHtoD_v2)(message.value, &word, sizeof word);
    }
  }
  return CUDA_ERROR_UNKNOWN;
}

}  // namespace

int main(int, char** argv) {
  const int socket = std::atoi(argv[1]);
  library = ::dlopen(argv[2], RTLD_NOW);
  CUcontext context = nullptr;
  if (library == nullptr || CU(cuInit)(0) != CUDA_SUCCESS || CU(cuDevicePrimaryCtxRetain)(&context, 0) != CUDA_SUCCESS)
    return 1;
  CU(cuCtxSetCurrent)(context);
  Message message;
  for (int descriptor = -1; receive_message(socket, message, descriptor);) {
    message.order = obey(message, descriptor);
    const bool answered = send_message(socket, message, descriptor);
    if (descriptor >= 0) ::close(descriptor);
    if (!answered) break;
  }
  return 0;
}

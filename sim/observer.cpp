#include "observer.hpp"

#include "arrays.hpp"
#include "host_memory.hpp"
#include "managed.hpp"

extern "C" ration::cuda::CUresult cuStreamGetId(ration::cuda::CUstream, unsigned long long*);

namespace ration::sim {

using namespace cuda;

void begin_observed(Observer observer, Operation& operation) {
  if (const Context* context = current(); context != nullptr) {
    operation.context = reinterpret_cast<CUcontext>(const_cast<Context*>(context));
    operation.device = ordinal_of(context->device);
    unsigned long long id = 0;
    if (cuStreamGetId(operation.stream, &id) == CUDA_SUCCESS) operation.stream_id = id;
  }
  observer(&operation, 0);
}

Memory memory_at(std::uint64_t address, std::uint64_t* size, int* device) {
  Allocation found;
  HostBlock host;
  ArrayLayout layout;
  if (find_host_block(address, host)) {
    if (size != nullptr) *size = host.size;
    return Memory::kPinned;
  }
  if (!find_allocation(address, found)) return Memory::kPageable;
  if (size != nullptr) *size = found.size;
  if (device != nullptr) *device = ordinal_of(found.device);
  if (found.managed) return Memory::kManaged;
  return layout_of(reinterpret_cast<CUarray>(found.start), layout) ? Memory::kArray : Memory::kDevice;
}

}  // namespace ration::sim

// Memory of other processes: its owner is charged for it, not the importer. The book counts what a process has
// imported, because what an owner exported stays charged after its end while somebody can hold it.
#include "driver/cuda_share_abi.hpp"
#include "shim/hooks/governor.hpp"
#include "shim/hooks/hooks.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {
namespace {

using namespace cuda;

Table<std::uint32_t> pool_pointers;  // times imported

/// Counted before the driver is asked: its owner may end at any moment.
template <typename Call>
CUresult import(Call&& call) noexcept {
  if (!governed()) return call();
  book().note_import();
  const CUresult result = call();
  if (result != CUDA_SUCCESS) book().note_import_closed();
  return result;
}

}  // namespace

void forget_imported_pointer(CUdeviceptr pointer) noexcept {
  bool known = false;
  pool_pointers.update(pointer, [&](std::uint32_t& times) {
    known = times > 0;
    return known && --times > 0;
  });
  if (known) book().note_import_closed();
}

void abandon_imports() noexcept { pool_pointers.abandon(); }

}  // namespace ration::shim

using namespace ration::shim;
using namespace ration::cuda;

RATION_HOOK CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return import([&] { return real<cuIpcOpenMemHandle_v2_t>(Symbol::cuIpcOpenMemHandle)(out, handle, flags); });
}
RATION_HOOK CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return import([&] { return real<cuIpcOpenMemHandle_v2_t>(Symbol::cuIpcOpenMemHandle_v2)(out, handle, flags); });
}
RATION_HOOK CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  const CUresult result = real<cuIpcCloseMemHandle_t>(Symbol::cuIpcCloseMemHandle)(address);
  if (result == CUDA_SUCCESS && governed()) book().note_import_closed();
  return result;
}

RATION_HOOK CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  const CUresult result =
      import([&] { return real<cuMemPoolImportPointer_t>(Symbol::cuMemPoolImportPointer)(out, pool, data); });
  if (result == CUDA_SUCCESS && governed()) {
    pool_pointers.update(*out, [](std::uint32_t& times) { return ++times != 0; });
  }
  return result;
}

// Device memory on its way from one process to another: what the driver exports it as, over a Unix socket. Used by the
// probe and by `ration-workload obey`.
#pragma once

#include <cstddef>
#include <string>

#include "driver/cuda_share_abi.hpp"

namespace ration::workload {

/// As what memory travels.
enum class Form : int { kIpc, kDescriptor, kPool };
/// False: there is no such form.
bool form_named(const std::string& name, Form& out);

/// The received content: the bytes of an IPC handle or of a pool's pointer, and a descriptor of the memory or of the
/// pool.
struct Parcel {
  Form form = Form::kIpc;
  int descriptor = -1;
  cuda::CUipcMemHandle bytes{};
};

bool send(int socket, const Parcel& parcel);
/// Waits for one. False: none comes any more.
bool receive(int socket, Parcel& out);

/// Takes memory and exports it; it stays this process's until drop_exports().
cuda::CUresult export_memory(Form form, std::size_t size, Parcel& out);
void drop_exports();

/// Holds the memory from now on; the parcel's descriptor is closed.
cuda::CUresult import_memory(Parcel& parcel);
void drop_imports();

}  // namespace ration::workload

// Device memory in transit from one process to another: the form in which the driver exports it, sent over a Unix
// socket. Used by the probe and by `ration-workload obey`.
#pragma once

#include <cstddef>
#include <string>

#include "driver/cuda_share_abi.hpp"

namespace ration::workload {

/// The form in which memory is exported.
enum class Form : int { kIpc, kDescriptor, kPool };
/// Finds a form by name. Returns false if there is none.
bool form_named(const std::string& name, Form& out);

/// A received export: the bytes of an IPC handle or of a pool's pointer, and a descriptor of the memory or the pool.
struct Parcel {
  Form form = Form::kIpc;
  int descriptor = -1;
  cuda::CUipcMemHandle bytes{};
};

bool send(int socket, const Parcel& parcel);
/// Waits for a parcel. Returns false if no more will come.
bool receive(int socket, Parcel& out);

/// Takes memory and exports it. This process owns it until drop_exports().
cuda::CUresult export_memory(Form form, std::size_t size, Parcel& out);
void drop_exports();

/// Imports the memory and holds it until drop_imports(). Closes the parcel's descriptor.
cuda::CUresult import_memory(Parcel& parcel);
void drop_imports();

}  // namespace ration::workload

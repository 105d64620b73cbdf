// The stand-in for libcudnn 9: descriptors, one engine with a workspace for every operation graph, normalisation and
// convolution by the older calls, and recurrent networks with the layout of their weights.
#include <cstdio>
#include <cstring>
#include <map>
#include <vector>

#include "standin.hpp"

using namespace ration::standin;

namespace ration::standin {

constexpr int kSuccess = 0, kNotInitialized = 1001, kBadParam = 2000, kNotSupported = 3000;

namespace {

/// The workspace of an engine. Real engines ask for anything from nothing to gigabytes; this is an arbitrary size.
constexpr std::int64_t kWorkspace = 8 << 20;
/// The version: newer than any cuDNN 9 that a framework may have been built for, since frameworks reject an older one.
constexpr std::size_t kVersion = 99900;

struct Library {
  Handle stream = nullptr;
};

/// A descriptor of the older calls, which keeps settings for queries.
struct Descriptor {
  int type = 0, format = 0, count = 0;
  int sizes[8] = {}, strides[8] = {};
};
Descriptor* of(Handle handle) { return static_cast<Descriptor*>(handle); }

constexpr std::int64_t kEngineResults = 202, kEngineOfConfiguration = 300, kConfigurationWorkspace = 303,
                       kPlanWorkspace = 402;
constexpr int kTypeDescriptor = 15;

/// Returns the bytes of one element of a cudnnBackendAttributeType_t.
std::size_t element_bytes(int type) {
  switch (type) {
    case 2:   // a boolean
    case 24:  // a character
      return 1;
    case 0:  // a handle
    case 3:  // 64 bits
    case 5:  // a double
    case 6:  // a pointer
    case kTypeDescriptor:
    case 26:  // a fraction
      return 8;
    default:
      return 4;
  }
}

/// A descriptor of the graph interface. It keeps attributes by number.
struct Backend {
  struct Attribute {
    int type = 0;
    std::int64_t count = 0;
    std::vector<char> bytes;
  };
  std::map<std::int64_t, Attribute> attributes;
};

}  // namespace

Handle stream_of(Handle handle) { return static_cast<Library*>(handle)->stream; }

}  // namespace ration::standin

STANDIN int cudnnCreate(Handle* out) {
  if (out == nullptr) return kBadParam;
  if (!has_context()) return kNotInitialized;
  *out = new Library;
  return kSuccess;
}
STANDIN int cudnnDestroy(Handle handle) {
  delete static_cast<Library*>(handle);
  return kSuccess;
}
STANDIN int cudnnSetStream(Handle handle, Handle stream) {
  static_cast<Library*>(handle)->stream = stream;
  return kSuccess;
}
STANDIN int cudnnGetStream(Handle handle, Handle* out) {
  *out = static_cast<Library*>(handle)->stream;
  return kSuccess;
}
STANDIN std::size_t cudnnGetVersion() { return kVersion; }
STANDIN std::size_t cudnnGetMaxDeviceVersion() { return kVersion; }
STANDIN std::size_t cudnnGetCudartVersion() { return RATION_CUDA_MAJOR * 1000; }
STANDIN int cudnnGetProperty(int kind, int* out) {
  *out = kind == 0 ? 9 : kind == 1 ? 99 : 0;
  return kSuccess;
}
STANDIN const char* cudnnGetErrorString(int status) {
  if (status == kNotSupported && missing != nullptr) return missing_text();
  switch (status) {
    case kSuccess:
      return "CUDNN_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case kBadParam:
      return "CUDNN_STATUS_BAD_PARAM";
    default:
      return "CUDNN_STATUS_NOT_SUPPORTED";
  }
}
STANDIN void cudnnGetLastErrorString(char* text, std::size_t size) {
  if (size > 0) std::snprintf(text, size, "%s", missing != nullptr ? cudnnGetErrorString(kNotSupported) : "");
}

// ------------------------------------------------------------------------------------------------- the older calls

#define DESCRIPTOR(kind)                                      \
  STANDIN int cudnnCreate##kind##Descriptor(Handle* out) {    \
    if (out == nullptr) return kBadParam;                     \
    *out = new Descriptor;                                    \
    return kSuccess;                                          \
  }                                                           \
  STANDIN int cudnnDestroy##kind##Descriptor(Handle handle) { \
    delete of(handle);                                        \
    return kSuccess;                                          \
  }
DESCRIPTOR(Tensor)
DESCRIPTOR(Filter)
DESCRIPTOR(Convolution)
DESCRIPTOR(Activation)
DESCRIPTOR(Pooling)
DESCRIPTOR(Dropout)
DESCRIPTOR(CTCLoss)
DESCRIPTOR(SpatialTransformer)
DESCRIPTOR(OpTensor)
DESCRIPTOR(ReduceTensor)
DESCRIPTOR(LRN)
DESCRIPTOR(TensorTransform)

STANDIN int cudnnSetTensorNdDescriptor(Handle handle, int type, int count, const int* sizes, const int* strides) {
  if (handle == nullptr || count < 1 || count > 8) return kBadParam;
  of(handle)->type = type;
  of(handle)->count = count;
  std::memcpy(of(handle)->sizes, sizes, static_cast<std::size_t>(count) * sizeof(int));
  if (strides != nullptr) std::memcpy(of(handle)->strides, strides, static_cast<std::size_t>(count) * sizeof(int));
  return kSuccess;
}
STANDIN int cudnnGetTensorNdDescriptor(Handle handle, int wanted, int* type, int* count, int* sizes, int* strides) {
  if (handle == nullptr) return kBadParam;
  *type = of(handle)->type;
  *count = of(handle)->count;
  for (int i = 0; i < wanted && i < of(handle)->count; ++i) {
    sizes[i] = of(handle)->sizes[i];
    strides[i] = of(handle)->strides[i];
  }
  return kSuccess;
}
STANDIN int cudnnSetFilterNdDescriptor(Handle handle, int type, int format, int count, const int* sizes) {
  of(handle)->format = format;
  return cudnnSetTensorNdDescriptor(handle, type, count, sizes, nullptr);
}
STANDIN int cudnnGetFilterNdDescriptor(Handle handle, int wanted, int* type, int* format, int* count, int* sizes) {
  int strides[8];
  *format = of(handle)->format;
  return cudnnGetTensorNdDescriptor(handle, wanted < 8 ? wanted : 8, type, count, sizes, strides);
}
// These functions return the size through their last argument.
STANDIN int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(Handle, int, int, Handle, Handle, Handle, Handle,
                                                                     Handle, std::size_t* out) {
  *out = kWorkspace;
  return kSuccess;
}
STANDIN int cudnnGetBatchNormalizationBackwardExWorkspaceSize(Handle, int, int, Handle, Handle, Handle, Handle, Handle,
                                                              Handle, Handle, std::size_t* out) {
  *out = kWorkspace;
  return kSuccess;
}
STANDIN int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(Handle, int, int, Handle, Handle, std::size_t* out) {
  *out = 64 << 10;
  return kSuccess;
}
#define CONVOLUTION_WORKSPACE(name)                                                 \
  STANDIN int name(Handle, Handle, Handle, Handle, Handle, int, std::size_t* out) { \
    *out = kWorkspace;                                                              \
    return kSuccess;                                                                \
  }
CONVOLUTION_WORKSPACE(cudnnGetConvolutionForwardWorkspaceSize)
CONVOLUTION_WORKSPACE(cudnnGetConvolutionBackwardDataWorkspaceSize)
CONVOLUTION_WORKSPACE(cudnnGetConvolutionBackwardFilterWorkspaceSize)
STANDIN int cudnnDropoutGetStatesSize(Handle, std::size_t* out) {
  *out = 1 << 20;
  return kSuccess;
}
#define VERSION_CHECK(part) \
  STANDIN int cudnn##part##VersionCheck() { return kSuccess; }
VERSION_CHECK(Ops)
VERSION_CHECK(Cnn)
VERSION_CHECK(Adv)
VERSION_CHECK(Graph)

// ------------------------------------------------------------------------------------------------ recurrent networks

namespace ration::standin {
namespace {

struct Recurrent {
  int gates = 1, directions = 1, type = 0, input = 0, hidden = 0, projection = 0, layers = 0;
  bool has_bias = true;

  [[nodiscard]] std::size_t element() const { return type == 1 ? 8 : type == 0 ? 4 : 2; }
  [[nodiscard]] int pseudo_layers() const { return layers * directions; }
  /// Returns the output size of a layer, in one direction.
  [[nodiscard]] int output() const { return projection > 0 && projection < hidden ? projection : hidden; }
  [[nodiscard]] int columns(int pseudo_layer, bool recurrent) const {
    if (recurrent) return output();
    return pseudo_layer < directions ? input : output() * directions;
  }
  [[nodiscard]] std::size_t matrix_elements(int pseudo_layer) const {
    const auto of_gates = static_cast<std::size_t>(gates) * static_cast<std::size_t>(hidden);
    const std::size_t projected =
        output() == hidden ? 0 : static_cast<std::size_t>(output()) * static_cast<std::size_t>(hidden);
    return of_gates * static_cast<std::size_t>(columns(pseudo_layer, false) + columns(pseudo_layer, true)) + projected;
  }
  [[nodiscard]] std::size_t bias_elements() const {
    return has_bias ? 2 * static_cast<std::size_t>(gates) * static_cast<std::size_t>(hidden) : 0;
  }
  [[nodiscard]] std::size_t elements() const {
    std::size_t sum = static_cast<std::size_t>(pseudo_layers()) * bias_elements();
    for (int layer = 0; layer < pseudo_layers(); ++layer) sum += matrix_elements(layer);
    return sum;
  }
};
Recurrent* recurrent(Handle handle) { return static_cast<Recurrent*>(handle); }

}  // namespace
}  // namespace ration::standin

DESCRIPTOR(RNNData)
STANDIN int cudnnCreateRNNDescriptor(Handle* out) {
  if (out == nullptr) return kBadParam;
  *out = new Recurrent;
  return kSuccess;
}
STANDIN int cudnnDestroyRNNDescriptor(Handle handle) {
  delete recurrent(handle);
  return kSuccess;
}
STANDIN int cudnnSetRNNDescriptor_v8(Handle handle, int, int cell, int bias, int direction, int, int type, int, int,
                                     int input, int hidden, int projection, int layers, Handle, unsigned int) {
  constexpr int kGates[] = {1, 1, 4, 3};  // plain network with either activation, LSTM, GRU
  if (handle == nullptr || cell < 0 || cell > 3 || hidden < 1 || layers < 1) return kBadParam;
  *recurrent(handle) = {kGates[cell], direction == 1 ? 2 : 1, type, input, hidden, projection, layers, bias != 0};
  return kSuccess;
}
STANDIN int cudnnGetRNNWeightSpaceSize(Handle, Handle handle, std::size_t* out) {
  *out = recurrent(handle)->elements() * recurrent(handle)->element();
  return kSuccess;
}
STANDIN int cudnnGetRNNTempSpaceSizes(Handle, Handle handle, int, Handle, std::size_t* workspace,
                                      std::size_t* reserve) {
  if (workspace != nullptr) *workspace = kWorkspace;
  if (reserve != nullptr) *reserve = static_cast<std::size_t>(recurrent(handle)->pseudo_layers()) << 20;
  return kSuccess;
}
/// Returns the place of a matrix and a bias. The matrices of all pseudo layers come first: in each layer those for the
/// input before the recurrent ones, and those of the gates side by side. The biases follow in the same order.
STANDIN int cudnnGetRNNWeightParams(Handle, Handle handle, int pseudo_layer, std::size_t, const void* space, int number,
                                    Handle matrix, void** matrix_address, Handle bias, void** bias_address) {
  const Recurrent& net = *recurrent(handle);
  if (pseudo_layer < 0 || pseudo_layer >= net.pseudo_layers() || number < 0 || number > 2 * net.gates) return kBadParam;
  const auto hidden = static_cast<std::size_t>(net.hidden);
  const bool is_projection = number == 2 * net.gates, is_recurrent = number >= net.gates;
  std::size_t place = 0, biases = 0;
  for (int layer = 0; layer < net.pseudo_layers(); ++layer) {
    if (layer < pseudo_layer) place += net.matrix_elements(layer);
    biases += net.matrix_elements(layer);
  }
  biases += static_cast<std::size_t>(pseudo_layer) * net.bias_elements();
  for (int before = 0; before < number; ++before)
    place += hidden * static_cast<std::size_t>(net.columns(pseudo_layer, before >= net.gates));
  const auto address = [&](std::size_t element) {
    return const_cast<char*>(static_cast<const char*>(space)) + element * net.element();
  };
  const int rows = is_projection ? net.output() : net.hidden;
  const int columns = is_projection ? net.hidden : net.columns(pseudo_layer, is_recurrent);
  const int sizes[] = {1, rows, columns}, strides[] = {rows * columns, columns, 1};
  const int bias_sizes[] = {1, net.hidden, 1}, bias_strides[] = {net.hidden, 1, 1};
  // A caller may want only one of the two results.
  if (matrix_address != nullptr) *matrix_address = address(place);
  if (matrix != nullptr) (void)cudnnSetTensorNdDescriptor(matrix, net.type, 3, sizes, strides);
  const bool biased = net.has_bias && !is_projection;
  if (bias_address != nullptr)
    *bias_address = biased ? address(biases + static_cast<std::size_t>(number) * hidden) : nullptr;
  if (bias != nullptr && biased) (void)cudnnSetTensorNdDescriptor(bias, net.type, 3, bias_sizes, bias_strides);
  return kSuccess;
}

// --------------------------------------------------------------------------------------------- the graph interface

STANDIN int cudnnBackendInitialize(Handle) { return kSuccess; }
STANDIN int cudnnBackendCreateDescriptor(int, Handle* out) {
  if (out == nullptr) return kBadParam;
  *out = new Backend;
  return kSuccess;
}
STANDIN int cudnnBackendDestroyDescriptor(Handle handle) {
  delete static_cast<Backend*>(handle);
  return kSuccess;
}
STANDIN int cudnnBackendFinalize(Handle) { return kSuccess; }
STANDIN int cudnnBackendExecute(Handle handle, Handle, Handle) { return compute(handle); }
STANDIN int cudnnBackendSetAttribute(Handle handle, int name, int type, std::int64_t count, const void* elements) {
  if (handle == nullptr || count < 0 || (count > 0 && elements == nullptr)) return kBadParam;
  auto& attribute = static_cast<Backend*>(handle)->attributes[name];
  const auto* first = static_cast<const char*>(elements);
  attribute = {type, count, {first, first + static_cast<std::size_t>(count) * element_bytes(type)}};
  return kSuccess;
}
STANDIN int cudnnBackendGetAttribute(Handle handle, int name, int, std::int64_t wanted, std::int64_t* count,
                                     void* elements) {
  if (handle == nullptr) return kBadParam;
  std::int64_t unused = 0;
  std::int64_t& told = count != nullptr ? *count : unused;
  auto* backend = static_cast<Backend*>(handle);
  if (name == kEngineResults || name == kEngineOfConfiguration) {
    told = 1;  // the descriptor that the caller made is the one result
    return kSuccess;
  }
  if (name == kPlanWorkspace || name == kConfigurationWorkspace) {
    told = 1;
    if (wanted > 0 && elements != nullptr) std::memcpy(elements, &kWorkspace, sizeof kWorkspace);
    return kSuccess;
  }
  const auto found = backend->attributes.find(name);
  if (found == backend->attributes.end()) {
    told = 0;
    return kSuccess;
  }
  told = found->second.count;
  const auto given = static_cast<std::size_t>(wanted < told ? wanted : told) * element_bytes(found->second.type);
  if (elements != nullptr && given > 0) std::memcpy(elements, found->second.bytes.data(), given);
  return kSuccess;
}

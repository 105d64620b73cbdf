#include "capture.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "graphs.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

struct Capture {
  cuuint64_t id = 0;
  Graph* graph = nullptr;
  const Context* context = nullptr;
  CUstream origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id by = std::this_thread::get_id();
  bool own_graph = true;  // the capture made the graph
  bool broken = false;    // a call failed or was not allowed, so the capture can only end
  std::unordered_map<CUstream, std::vector<GraphNode*>> last;  // by stream: the nodes that its next work waits for
  std::vector<CUgraphNode> told;                               // the array that cuStreamGetCaptureInfo returned
};

struct Mark {
  Capture* capture = nullptr;
  std::vector<GraphNode*> nodes;
};

std::unordered_map<CUstream, Capture*>& captures =
    *new std::unordered_map<CUstream, Capture*>;  // this map, `marks` and `next_id` require driver().mutex
std::unordered_map<CUevent, Mark>& marks = *new std::unordered_map<CUevent, Mark>;
std::atomic<std::size_t> captured_streams{0};  // 0: no look-up is needed, so streams cost nothing
cuuint64_t next_id = 1;
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/// Returns the stream for which a handle stands in this thread. The handle of the per-thread stream stands for another
/// stream in each thread.
CUstream own(CUstream stream) {
  thread_local char identity;
  return reinterpret_cast<std::uintptr_t>(stream) == 2 ? reinterpret_cast<CUstream>(&identity) : stream;
}

Capture* capture_of(CUstream stream) {
  const auto found = captures.find(stream);
  return found == captures.end() ? nullptr : found->second;
}

void join(Capture& capture, CUstream stream, std::vector<GraphNode*> nodes) {
  captures[stream] = &capture;
  capture.last[stream] = std::move(nodes);
  captured_streams.store(captures.size());
}

void end(Capture* capture) {
  for (const auto& [stream, nodes] : capture->last) captures.erase(stream);
  std::erase_if(marks, [&](const auto& mark) { return mark.second.capture == capture; });
  captured_streams.store(captures.size());
  delete capture;
}

/// Returns true if the last work of the stream on which the capture began waits for all work of the other streams.
bool joined(const Capture& capture) {
  std::unordered_set<const GraphNode*> reached;
  std::vector<const GraphNode*> open(capture.last.at(capture.origin).begin(), capture.last.at(capture.origin).end());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return std::all_of(capture.last.begin(), capture.last.end(), [&](const auto& stream) {
    return std::all_of(stream.second.begin(), stream.second.end(),
                       [&](const GraphNode* node) { return reached.contains(node); });
  });
}

CUresult begin(CUstream stream, CUstreamCaptureMode mode, CUgraph graph = nullptr,
               const CUgraphNode* dependencies = nullptr, std::size_t count = 0) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (reinterpret_cast<std::uintptr_t>(stream) <= 1) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // the legacy stream
  stream = own(stream);
  const std::lock_guard guard(driver().mutex);
  if (capture_of(stream) != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (graph != nullptr && graph_of(graph) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* capture = new Capture;
  capture->id = next_id++;
  capture->context = current();
  capture->origin = stream;
  capture->mode = mode;
  capture->own_graph = graph == nullptr;
  capture->graph = graph == nullptr ? new_graph() : graph_of(graph);
  std::vector<GraphNode*> before;
  for (std::size_t i = 0; i < count; ++i) before.push_back(node_of(dependencies[i]));
  join(*capture, stream, std::move(before));
  return CUDA_SUCCESS;
}

CUresult finish(CUstream stream, CUgraph* out) {
  stream = own(stream);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  const std::lock_guard guard(driver().mutex);
  Capture* capture = capture_of(stream);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  const CUresult result = capture->broken     ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                          : !joined(*capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                              : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS)
    *out = handle_of(capture->graph);
  else if (capture->own_graph)
    destroy_graph(capture->graph);
  end(capture);
  return result;
}

CUstreamCaptureStatus status_of(CUstream stream) {
  const Capture* capture = capture_of(stream);
  return capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
         : capture->broken  ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                            : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult information(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                     const CUgraphNode** dependencies, std::size_t* count) {
  stream = own(stream);
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  *status = status_of(stream);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  Capture& capture = *capture_of(stream);
  capture.told.clear();
  for (const GraphNode* node : capture.last[stream]) capture.told.push_back(handle_of(node));
  if (id != nullptr) *id = capture.id;
  if (graph != nullptr) *graph = handle_of(capture.graph);
  if (dependencies != nullptr) *dependencies = capture.told.data();
  if (count != nullptr) *count = capture.told.size();
  return CUDA_SUCCESS;
}

CUresult change_dependencies(CUstream stream, const CUgraphNode* dependencies, std::size_t count, unsigned flags) {
  stream = own(stream);
  const std::lock_guard guard(driver().mutex);
  Capture* capture = capture_of(stream);
  if (capture == nullptr || capture->broken) return CUDA_ERROR_ILLEGAL_STATE;
  auto& last = capture->last[stream];
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) last.clear();
  for (std::size_t i = 0; i < count; ++i) last.push_back(node_of(dependencies[i]));
  return CUDA_SUCCESS;
}

bool capture_node(CUstream stream, CUgraphNodeType type, const NodeParameters& parameters) {
  stream = own(stream);
  if (captured_streams.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard guard(driver().mutex);
  Capture* capture = capture_of(stream);
  if (capture == nullptr) return false;
  if (capture->broken) return true;
  GraphNode* node = add_node(capture->graph, type, capture->last[stream]);
  node->parameters = parameters;
  capture->last[stream] = {node};
  return true;
}

}  // namespace

bool is_captured(CUstream stream) {
  stream = own(stream);
  if (captured_streams.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard guard(driver().mutex);
  return capture_of(stream) != nullptr;
}

bool capture_work(CUstream stream, CUgraphNodeType type) { return capture_node(stream, type, {}); }

bool capture_copy(CUstream stream, const CUDA_MEMCPY3D& copy) {
  GraphCopyParams parameters;
  static_assert(sizeof parameters.bytes == sizeof copy);
  std::memcpy(parameters.bytes, &copy, sizeof copy);
  return capture_node(stream, CU_GRAPH_NODE_TYPE_MEMCPY, parameters);
}

bool capture_fill(CUstream stream, const CUDA_MEMSET_NODE_PARAMS& fill) {
  return capture_node(stream, CU_GRAPH_NODE_TYPE_MEMSET, fill);
}

bool capture_record(CUevent event, CUstream stream) {
  stream = own(stream);
  if (captured_streams.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard guard(driver().mutex);
  Capture* capture = capture_of(stream);
  if (capture == nullptr) {
    marks.erase(event);
    return false;
  }
  marks[event] = {capture, capture->last[stream]};
  return true;
}

bool capture_wait(CUstream stream, CUevent event) {
  stream = own(stream);
  if (captured_streams.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard guard(driver().mutex);
  const auto mark = marks.find(event);
  if (mark == marks.end()) return false;
  Capture* present = capture_of(stream);
  if (present == nullptr) {
    join(*mark->second.capture, stream, mark->second.nodes);
  } else if (present == mark->second.capture) {
    auto& last = present->last[stream];
    last.insert(last.end(), mark->second.nodes.begin(), mark->second.nodes.end());
    std::sort(last.begin(), last.end());
    last.erase(std::unique(last.begin(), last.end()), last.end());
  } else {
    present->broken = mark->second.capture->broken = true;  // two captures cannot become one
  }
  return true;
}

bool break_captures_of(const Context* context) {
  if (captured_streams.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard guard(driver().mutex);
  bool any = false;
  for (const auto& [stream, capture] : captures) {
    if (capture->context == context) any = capture->broken = true;
  }
  return any;
}

bool break_capture_of(CUstream stream) {
  if (captured_streams.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard guard(driver().mutex);
  Capture* capture = capture_of(own(stream));
  if (capture != nullptr) capture->broken = true;
  return capture != nullptr;
}

bool break_captures_by_unsafe_call() {
  if (captured_streams.load(std::memory_order_relaxed) == 0 || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return false;
  const std::lock_guard guard(driver().mutex);
  bool any = false;
  for (const auto& [stream, capture] : captures) {
    const bool own_capture = capture->by == std::this_thread::get_id();
    const bool elsewhere =
        capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && (own_capture || elsewhere)) any = capture->broken = true;
  }
  return any;
}

CUresult capture_allocation(CUstream stream, int device, std::size_t size, CUdeviceptr& out) {
  stream = own(stream);
  const std::lock_guard guard(driver().mutex);
  Capture* capture = capture_of(stream);
  if (capture == nullptr || capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  const auto& visible = driver().visible;
  const auto ordinal = std::find(visible.begin(), visible.end(), device) - visible.begin();
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(ordinal)};
  parameters.bytesize = size;
  GraphNode* node = nullptr;
  const CUresult result = add_alloc_node(capture->graph, capture->last[stream], parameters, node);
  if (result != CUDA_SUCCESS) return result;
  capture->last[stream] = {node};
  out = parameters.dptr;
  return CUDA_SUCCESS;
}

CUresult capture_free(CUstream stream, CUdeviceptr address) {
  stream = own(stream);
  const std::lock_guard guard(driver().mutex);
  Capture* capture = capture_of(stream);
  if (capture == nullptr || capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  GraphNode* node = nullptr;
  const CUresult result = add_free_node(capture->graph, capture->last[stream], address, node);
  if (result == CUDA_SUCCESS) capture->last[stream] = {node};
  return result;
}

}  // namespace ration::sim

using namespace ration::sim;

// Every function below exists twice: for the stream as given, and under its name with _ptsz for the per-thread stream.
#define RATION_BOTH(name, parameters, call)     \
  RATION_ENTRY name parameters { return call; } \
  RATION_ENTRY name##_ptsz parameters {         \
    stream = per_thread(stream);                \
    return call;                                \
  }

RATION_BOTH(cuStreamBeginCapture, (CUstream stream), begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL))
RATION_BOTH(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), begin(stream, mode))
RATION_BOTH(cuStreamBeginCaptureToGraph,
            (CUstream stream, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData*, std::size_t count,
             CUstreamCaptureMode mode),
            graph == nullptr ? CUDA_ERROR_INVALID_VALUE : begin(stream, mode, graph, dependencies, count))
RATION_BOTH(cuStreamEndCapture, (CUstream stream, CUgraph* out), finish(stream, out))
RATION_BOTH(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus* out),
            information(stream, out, nullptr, nullptr, nullptr, nullptr))
RATION_BOTH(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id),
            information(stream, status, id, nullptr, nullptr, nullptr))
RATION_BOTH(cuStreamGetCaptureInfo_v2,
            (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
             const CUgraphNode** dependencies, std::size_t* count),
            information(stream, status, id, graph, dependencies, count))
RATION_BOTH(cuStreamGetCaptureInfo_v3,
            (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
             const CUgraphNode** dependencies, const CUgraphEdgeData** edges, std::size_t* count),
            ((edges != nullptr ? void(*edges = nullptr) : void()),
             information(stream, status, id, graph, dependencies, count)))
RATION_BOTH(cuStreamUpdateCaptureDependencies,
            (CUstream stream, const CUgraphNode* dependencies, std::size_t count, unsigned flags),
            change_dependencies(stream, dependencies, count, flags))
RATION_BOTH(cuStreamUpdateCaptureDependencies_v2,
            (CUstream stream, const CUgraphNode* dependencies, const CUgraphEdgeData*, std::size_t count,
             unsigned flags),
            change_dependencies(stream, dependencies, count, flags))

RATION_ENTRY cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

#include "guard/hooks/graph_reader.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "driver/cuda_graph_abi.hpp"
#include "guard/real.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

constexpr int kDeepest = 64;  // the deepest nesting of graphs in graphs

CUgraphNodeType type_of(CUgraphNode node) noexcept {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  (void)real<cuGraphNodeGetType_t>(Symbol::cuGraphNodeGetType)(node, &type);
  return type;
}

bool read_nodes(CUgraph graph, MappedArray<CUgraphNode>& out) noexcept {
  auto* ask = real<cuGraphGetNodes_t>(Symbol::cuGraphGetNodes);
  std::size_t count = 0;
  if (ask(graph, nullptr, &count) != CUDA_SUCCESS || !out.resize(count)) return false;
  if (count > 0 && ask(graph, out.data(), &count) != CUDA_SUCCESS) return false;
  return out.resize(std::min(count, out.size()));
}

bool graph_inside(CUgraphNode node, CUgraph& out) noexcept {
  return type_of(node) == CU_GRAPH_NODE_TYPE_GRAPH &&
         real<cuGraphChildGraphNodeGetGraph_t>(Symbol::cuGraphChildGraphNodeGetGraph)(node, &out) == CUDA_SUCCESS;
}

bool touches_memory(CUgraph graph, int depth) noexcept {
  MappedArray<CUgraphNode> nodes;
  if (depth > kDeepest) return true;
  if (!read_nodes(graph, nodes)) return false;
  return std::any_of(nodes.begin(), nodes.end(), [&](CUgraphNode node) {
    const CUgraphNodeType type = type_of(node);
    CUgraph inside = nullptr;
    return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
           (graph_inside(node, inside) && touches_memory(inside, depth + 1));
  });
}

/// The edges as pairs of nodes; empty if the driver does not report them. Without edges no node waits for another, so
/// the computed memory of the graph is an upper bound.
struct Edges {
  MappedArray<CUgraphNode> from, to;
  MappedArray<CUgraphEdgeData> data;  // zero if the edge orders one whole node before the other

  explicit Edges(CUgraph graph) noexcept {
    if (!read_with_data(graph) && !read_plain(graph)) (void)from.resize(0);
  }

 private:
  bool make_room(std::size_t count) noexcept { return from.resize(count) && to.resize(count) && data.resize(count); }
  bool read_with_data(CUgraph graph) noexcept {  // the call exists since CUDA 12.3; edges with data require it
    auto* ask = real<cuGraphGetEdges_v2_t>(Symbol::cuGraphGetEdges_v2);
    std::size_t count = 0;
    return ask(graph, nullptr, nullptr, nullptr, &count) == CUDA_SUCCESS && make_room(count) &&
           (count == 0 || ask(graph, from.data(), to.data(), data.data(), &count) == CUDA_SUCCESS) &&
           from.resize(std::min(count, from.size()));
  }
  bool read_plain(CUgraph graph) noexcept {
    auto* ask = real<cuGraphGetEdges_t>(Symbol::cuGraphGetEdges);
    std::size_t count = 0;
    return ask(graph, nullptr, nullptr, &count) == CUDA_SUCCESS && make_room(count) &&
           (count == 0 || ask(graph, from.data(), to.data(), &count) == CUDA_SUCCESS) &&
           from.resize(std::min(count, from.size()));
  }
};

/// A node of the driver and its place in the schedule. A nested graph has two nodes there: it begins at `first` and
/// ends at `last`.
struct Placed {
  CUgraphNode handle;
  GraphSchedule::Node first, last;
};

class Reader {
 public:
  explicit Reader(GraphSchedule& schedule) noexcept : schedule_(schedule) {}

  bool read(CUgraph graph, int depth) noexcept {
    MappedArray<CUgraphNode> nodes;
    MappedArray<Placed> placed;
    if (depth > kDeepest || !read_nodes(graph, nodes) || !placed.resize(nodes.size())) return false;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!place(nodes[i], placed[i], depth)) return false;
    }
    const auto by_handle = [](const Placed& left, const Placed& right) { return left.handle < right.handle; };
    std::sort(placed.begin(), placed.end(), by_handle);
    const Edges edges(graph);
    for (std::size_t i = 0; i < edges.from.size(); ++i) {
      const CUgraphEdgeData& data = edges.data[i];
      if (data.type != 0 || data.from_port != 0)
        continue;  // such an edge lets the other node begin before this one has ended
      const Placed *from = find(placed, edges.from[i]), *to = find(placed, edges.to[i]);
      if (from != nullptr && to != nullptr) schedule_.add_edge(from->last, to->first);
    }
    return true;
  }

 private:
  static const Placed* find(const MappedArray<Placed>& placed, CUgraphNode handle) noexcept {
    const Placed* found = std::lower_bound(placed.begin(), placed.end(), handle,
                                           [](const Placed& one, CUgraphNode wanted) { return one.handle < wanted; });
    return found != placed.end() && found->handle == handle ? found : nullptr;
  }

  bool place(CUgraphNode handle, Placed& out, int depth) noexcept {
    out = {handle, schedule_.add_node(), 0};
    out.last = out.first;
    CUgraph inside = nullptr;
    if (graph_inside(handle, inside)) return place_graph(inside, out, depth);
    if (type_of(handle) == CU_GRAPH_NODE_TYPE_MEM_ALLOC) return place_allocation(handle, out.first);
    if (type_of(handle) == CU_GRAPH_NODE_TYPE_MEM_FREE) {
      CUdeviceptr address = 0;
      if (real<cuGraphMemFreeNodeGetParams_t>(Symbol::cuGraphMemFreeNodeGetParams)(handle, &address) == CUDA_SUCCESS)
        schedule_.free(out.first, address);
    }
    return true;
  }

  /// Places a nested graph so that all its nodes run between its first and its last node.
  bool place_graph(CUgraph inside, Placed& out, int depth) noexcept {
    const GraphSchedule::Node begin = schedule_.node_count();
    if (!read(inside, depth + 1)) return false;
    const GraphSchedule::Node end = schedule_.node_count();
    out.last = schedule_.add_node();
    schedule_.add_edge(out.first, out.last);
    for (GraphSchedule::Node node = begin; node < end; ++node) {
      schedule_.add_edge(out.first, node);
      schedule_.add_edge(node, out.last);
    }
    return true;
  }

  bool place_allocation(CUgraphNode handle, GraphSchedule::Node at) noexcept {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
    if (real<cuGraphMemAllocNodeGetParams_t>(Symbol::cuGraphMemAllocNodeGetParams)(handle, &parameters) != CUDA_SUCCESS)
      return false;
    const CUmemLocation where = parameters.poolProps.location;
    if (is_of_host(where.type)) return true;
    if (where.type != CU_MEM_LOCATION_TYPE_DEVICE) return false;
    schedule_.take(at, parameters.dptr, round_up(Bytes{parameters.bytesize}, kGranule).count(), where.id);
    return true;
  }

  GraphSchedule& schedule_;
};

}  // namespace

bool has_memory_nodes(CUgraph graph) noexcept { return touches_memory(graph, 0); }

bool read_graph(CUgraph graph, GraphSchedule& out) noexcept { return Reader(out).read(graph, 0) && out.is_whole(); }

}  // namespace ration::guard

#include "node/causes.hpp"

#include <algorithm>
#include <map>

namespace ration::node {
namespace {

using history::Event;

constexpr std::int64_t kLookBack = 5'000;  // events
constexpr std::size_t kMostShown = 4;

/// Types of events that can have led to one of a type.
const std::map<std::string, std::vector<std::string>>& may_lead_to() {
  static const std::map<std::string, std::vector<std::string>> types{
      {"denied", {"resized", "rebalanced", "denied"}},
      {"waited", {"resized", "rebalanced", "denied"}},
      {"resized", {"resized", "config"}},
      {"rebalanced", {"resized", "rebalanced", "started", "granted", "resuming"}},
      {"shrinking", {"resized", "rebalanced", "shrinking"}},
      {"trimmed", {"idle", "resized", "rebalanced"}},
      {"suspending", {"idle"}},
      {"suspended", {"idle", "suspending"}},
      {"suspend_failed", {"idle", "suspending", "resuming"}},
      {"resuming", {"suspended", "queued"}},
      {"resumed", {"suspended", "resuming", "queued", "granted"}},
      {"granted", {"queued", "resuming"}},
      {"started", {"queued", "granted"}},
      {"ended", {"denied", "waited", "alert"}},
      {"violation", {"started", "resized"}},
  };
  return types;
}

/// `q-17` of the sentence of a lease.
std::string lease_of(const Event& event) {
  return event.text.rfind("q-", 0) == 0 ? event.text.substr(0, event.text.find(' ')) : std::string();
}

bool belongs(const Event& earlier, const Event& event) {
  if (const std::string lease = lease_of(earlier); !lease.empty() && !lease_of(event).empty())
    return lease == lease_of(event);
  if (earlier.type == "config") return event.text.find("schedule") != std::string::npos;
  if (earlier.tenant != event.tenant) return false;
  return earlier.workload.empty() || event.workload.empty() || earlier.workload == event.workload;
}

}  // namespace

Result<std::vector<Event>> causes_of(history::Reader& reader, const Event& event) {
  std::vector<Event> causes;
  const auto types = may_lead_to().find(event.type);
  if (types == may_lead_to().end() || event.id < 2) return causes;
  history::EventQuestion question;
  question.types = types->second;
  question.since = std::max<std::int64_t>(1, event.id - kLookBack);
  question.limit = kLookBack;
  auto earlier = reader.events(question);
  if (!earlier) return earlier;
  for (auto each = earlier->rbegin(); each != earlier->rend() && causes.size() < kMostShown; ++each) {
    if (each->id >= event.id || !belongs(*each, event)) continue;
    if (each->type == event.type && !causes.empty()) break;  // that one has causes of its own
    causes.push_back(std::move(*each));
  }
  std::reverse(causes.begin(), causes.end());
  return causes;
}

}  // namespace ration::node

#include "node/events/causes.hpp"

#include <algorithm>
#include <map>

namespace ration::node {
namespace {

using history::Event;

constexpr std::int64_t kLookBack = 5'000;  // events
constexpr std::int64_t kMaxRead = 500;
constexpr std::size_t kMaxShown = 4;

/// Types of events that can have led to one of a type.
const std::map<std::string, std::vector<std::string>>& may_lead_to() {
  static const std::map<std::string, std::vector<std::string>> types{
      {"denied", {"resized", "rebalanced", "denied"}},
      {"waited", {"resized", "rebalanced", "denied"}},
      {"resized", {"resized", "config"}},
      {"rebalanced", {"resized", "rebalanced", "started", "resuming"}},
      {"shrinking", {"resized", "rebalanced", "shrinking"}},
      {"trimmed", {"idle", "resized", "rebalanced"}},
      {"suspending", {"idle"}},
      {"suspended", {"idle", "suspending"}},
      {"suspend_failed", {"idle", "suspending", "resuming"}},
      {"resuming", {"suspended"}},
      {"resumed", {"suspended", "resuming"}},
      {"granted", {"queued"}},
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
  if (lease_of(earlier) != lease_of(event)) return false;
  if (earlier.type == "config") return earlier.text.rfind("schedule ", 0) == 0 && event.by.rfind("schedule of", 0) == 0;
  if (earlier.tenant != event.tenant || (earlier.gpu && event.gpu && earlier.gpu != event.gpu)) return false;
  if (earlier.workload.empty() || event.workload.empty()) return true;  // of the whole tenant
  return earlier.workload == event.workload && earlier.user == event.user;
}

}  // namespace

Result<std::vector<Event>> causes_of(history::Reader& reader, const Event& event) {
  std::vector<Event> causes;
  const auto types = may_lead_to().find(event.type);
  if (types == may_lead_to().end() || event.id < 1) return causes;
  history::EventQuestion question;
  question.types = types->second;
  question.since = std::max<std::int64_t>(0, event.id - kLookBack);
  question.before = event.id;
  question.limit = kMaxRead;
  auto earlier = reader.events(question);
  if (!earlier) return earlier;
  for (auto each = earlier->rbegin(); each != earlier->rend() && causes.size() < kMaxShown; ++each) {
    if (!belongs(*each, event)) continue;
    if (each->type == event.type && !causes.empty()) break;  // that one has causes of its own
    causes.push_back(std::move(*each));
  }
  std::reverse(causes.begin(), causes.end());
  return causes;
}

}  // namespace ration::node

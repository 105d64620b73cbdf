#include "node/events/causes.hpp"

#include <algorithm>
#include <map>

#include "node/events/event.hpp"

namespace ration::node {
namespace {

constexpr std::int64_t kLookBack = 5'000;  // the most events that may lie between cause and effect
constexpr std::int64_t kMaxRead = 500;
constexpr std::size_t kMaxShown = 4;

using Type = EventType;

/// Maps a type to the types of events that may have led to it.
const std::map<Type, std::vector<Type>>& may_lead_to() {
  static const std::map<Type, std::vector<Type>> types{
      {Type::kDenied, {Type::kResized, Type::kRebalanced, Type::kDenied}},
      {Type::kWaited, {Type::kResized, Type::kRebalanced, Type::kDenied}},
      {Type::kResized, {Type::kResized, Type::kConfig}},
      {Type::kRebalanced, {Type::kResized, Type::kRebalanced, Type::kStarted, Type::kResuming}},
      {Type::kShrinking, {Type::kResized, Type::kRebalanced, Type::kShrinking}},
      {Type::kTrimmed, {Type::kIdle, Type::kResized, Type::kRebalanced}},
      {Type::kSuspending, {Type::kIdle}},
      {Type::kSuspended, {Type::kIdle, Type::kSuspending}},
      {Type::kSuspendFailed, {Type::kIdle, Type::kSuspending, Type::kResuming}},
      {Type::kResuming, {Type::kSuspended}},
      {Type::kResumed, {Type::kSuspended, Type::kResuming}},
      {Type::kDequeued, {Type::kQueued}},
      {Type::kGranted, {Type::kQueued}},
      {Type::kEnded, {Type::kDenied, Type::kWaited, Type::kAlert}},
      {Type::kViolation, {Type::kStarted, Type::kResized}},
  };
  return types;
}

bool belongs(const history::Event& earlier, const history::Event& event, Type type, const RecordedFacts& facts) {
  if (type == Type::kGranted || type == Type::kDequeued)
    return !facts.lease.empty() && facts_of(earlier).lease == facts.lease;
  if (event_type(earlier.type) == Type::kConfig) return facts.of_schedule && facts_of(earlier).of_schedule;
  if (earlier.tenant != event.tenant || (earlier.gpu && event.gpu && earlier.gpu != event.gpu)) return false;
  if (earlier.workload.empty() || event.workload.empty()) return true;  // one event is about the whole tenant
  return earlier.workload == event.workload && earlier.user == event.user;
}

}  // namespace

Result<std::vector<history::Event>> causes_of(history::Reader& reader, const history::Event& event) {
  std::vector<history::Event> causes;
  const auto type = event_type(event.type);
  const auto types = type ? may_lead_to().find(*type) : may_lead_to().end();
  if (types == may_lead_to().end() || event.id < 1) return causes;
  const RecordedFacts facts = facts_of(event);
  history::EventQuestion question;
  for (const Type each : types->second) question.types.emplace_back(name_of(each));
  question.since = std::max<std::int64_t>(0, event.id - kLookBack);
  question.before = event.id;
  question.limit = kMaxRead;
  auto earlier = reader.events(question);
  if (!earlier) return earlier;
  for (auto each = earlier->rbegin(); each != earlier->rend() && causes.size() < kMaxShown; ++each) {
    if (!belongs(*each, event, *type, facts)) continue;
    if (each->type == event.type && !causes.empty()) break;  // an earlier event of this type has causes of its own
    causes.push_back(std::move(*each));
  }
  std::reverse(causes.begin(), causes.end());
  return causes;
}

}  // namespace ration::node

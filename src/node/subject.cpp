#include "node/subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "node/people.hpp"

namespace ration::node {
namespace {

std::string cgroup_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cgroup", pid));
  for (std::string line; std::getline(file, line);)
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  return {};
}

}  // namespace

policy::Subject subject_of(const http::Peer& peer, const std::string& asked_tenant, const std::string& labels) {
  policy::Subject subject;
  subject.uid = *peer.uid;
  subject.user = user_name(subject.uid);
  subject.groups = groups_of(subject.uid);
  if (peer.pid) subject.cgroup = cgroup_of(*peer.pid);
  subject.asked_tenant = asked_tenant;
  for (std::size_t at = 0; at < labels.size();) {
    const std::size_t comma = std::min(labels.find(',', at), labels.size());
    const std::string label = labels.substr(at, comma - at);
    if (const std::size_t equals = label.find('='); equals != std::string::npos)
      subject.labels[label.substr(0, equals)] = label.substr(equals + 1);
    at = comma + 1;
  }
  return subject;
}

}  // namespace ration::node

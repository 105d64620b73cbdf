#include "node/state/config_subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "machine/user_names.hpp"

namespace ration::node {
std::string cgroup_of(std::int32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cgroup", pid));
  for (std::string line; std::getline(file, line);)
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  return {};
}

std::string cgroup_folder_of(std::int32_t pid) {
  const std::string cgroup = cgroup_of(pid);
  return cgroup.empty() || cgroup == "/" ? "" : "/sys/fs/cgroup" + cgroup;
}

std::map<std::string, std::string> labels_of(const std::string& text) {
  std::map<std::string, std::string> labels;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string label = text.substr(at, comma - at);
    if (const std::size_t equals = label.find('='); equals != std::string::npos)
      labels[label.substr(0, equals)] = label.substr(equals + 1);
    at = comma + 1;
  }
  return labels;
}

config::Subject subject_of(const http::Peer& peer, const std::string& asked_tenant, const std::string& labels) {
  config::Subject subject;
  subject.uid = *peer.uid;
  subject.user = machine::user_name(subject.uid);
  subject.groups = machine::groups_of(subject.uid);
  if (peer.pid) subject.cgroup = cgroup_of(*peer.pid);
  subject.asked_tenant = asked_tenant;
  subject.asks_for_another = machine::names_another_user(asked_tenant, subject.uid);
  subject.is_operator = machine::is_operator(subject.uid);
  subject.labels = labels_of(labels);
  return subject;
}

config::Subject subject_of(const Workload& workload) {
  config::Subject subject;
  subject.user = workload.user;
  subject.uid = workload.owner;
  subject.groups = machine::groups_of(workload.owner);
  subject.labels = labels_of(workload.book.labels);
  return subject;
}

}  // namespace ration::node

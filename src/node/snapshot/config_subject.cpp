#include "node/snapshot/config_subject.hpp"

#include <fmt/format.h>

#include <fstream>

#include "base/labels.hpp"
#include "machine/user_names.hpp"

namespace ration::node {
namespace {

/// Returns the image label. The caller checks that root's hooks wrote the label, because a label by any other user
/// proves nothing.
std::string image_in(const config::Subject& subject) {
  const auto label = subject.labels.find("image");
  return label != subject.labels.end() ? label->second : "";
}

}  // namespace

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

config::Subject subject_of(const http::Peer& peer, const std::string& asked_tenant, const std::string& labels) {
  config::Subject subject;
  subject.uid = *peer.uid;
  subject.user = machine::user_name(subject.uid);
  subject.groups = machine::groups_of(subject.uid);
  if (peer.pid) subject.cgroup = cgroup_of(*peer.pid);
  subject.asked_tenant = asked_tenant;
  subject.asks_for_another = machine::names_another_user(asked_tenant, subject.uid);
  subject.is_operator = machine::is_operator(subject.uid);
  subject.labels = parse_labels(labels);
  if (subject.uid == 0) subject.image = image_in(subject);
  return subject;
}

config::Subject subject_of(const Workload& workload) {
  config::Subject subject;
  subject.user = workload.user;
  subject.uid = workload.person;
  subject.groups = machine::groups_of(workload.person);
  subject.labels = parse_labels(workload.book.labels);
  if (workload.owner == 0) subject.image = image_in(subject);
  return subject;
}

}  // namespace ration::node

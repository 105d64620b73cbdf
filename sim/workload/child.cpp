#include "sim/workload/child.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace ration::workload {

using namespace cuda;

namespace {

constexpr int kParcels = 3;  // the number of the descriptor over which the child sends parcels

std::vector<std::string> environment_of(const Altered& altered) {
  std::vector<std::string> all = altered.added;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view name = std::string_view(*entry).substr(0, std::strcspn(*entry, "="));
    if (std::find(altered.dropped.begin(), altered.dropped.end(), name) == altered.dropped.end())
      all.emplace_back(*entry);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

void execute(const char* program, char* const* words, char* const* environment) {
  ::execve(program, words, environment);
}

bool Child::start(Start* way, const Altered& altered) {
  int orders[2], parcels[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders) != 0 ||
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, parcels) != 0)
    return false;
  char program[4096] = {};
  if (::readlink("/proc/self/exe", program, sizeof program - 1) < 0) return false;
  std::vector<std::string> words{program, "obey", "--socket", std::to_string(kParcels)};
  std::vector<std::string> variables = environment_of(altered);
  const auto given = pointers_to(words), environment = pointers_to(variables);
  child_ = ::fork();
  if (child_ == 0) {
    ::close(orders[0]);
    ::close(parcels[0]);
    const int socket = ::fcntl(parcels[1], F_DUPFD, kParcels + 1);
    ::dup2(orders[1], 0);
    ::dup2(orders[1], 1);
    if (orders[1] != kParcels) ::close(orders[1]);
    ::dup2(socket, kParcels);
    ::close(socket);
    way(program, given.data(), environment.data());
    ::_exit(127);
  }
  ::close(orders[1]);
  ::close(parcels[1]);
  orders_ = orders[0];
  parcels_ = parcels[0];
  return ask("free") == CUDA_SUCCESS;
}

CUresult Child::ask(const std::string& order) {
  const std::string line = order + "\n";
  std::string answer;
  if (::send(orders_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    return CUDA_ERROR_UNKNOWN;
  for (char letter = 0; ::recv(orders_, &letter, 1, 0) == 1 && letter != '\n';) answer += letter;
  return answer.empty() ? CUDA_ERROR_UNKNOWN : static_cast<CUresult>(std::atoi(answer.c_str()));
}

void Child::stop() {
  if (child_ < 0) return;
  ::close(orders_);
  ::close(parcels_);
  ::waitpid(child_, nullptr, 0);
  child_ = -1;
}

}  // namespace ration::workload

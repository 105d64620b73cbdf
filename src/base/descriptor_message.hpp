// Sends and receives a message of a fixed size over a Unix socket, with at most one open file descriptor (SCM_RIGHTS,
// unix(7)). Used by programs and tests that pass memory to another process. Promise: received descriptors are closed on
// exec.
#pragma once

#include <sys/socket.h>

#include <cstring>
#include <type_traits>

namespace ration {

/// Sends a message, with `descriptor` unless it is -1. Returns false if the other side is gone or did not take the
/// whole message.
template <class Message>
[[nodiscard]] bool send_message(int socket, const Message& message, int descriptor) {
  static_assert(std::is_trivially_copyable_v<Message>);
  iovec part{const_cast<Message*>(&message), sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(first), &descriptor, sizeof descriptor);
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL) == sizeof message;
}

/// Receives a message; sets `descriptor` to -1 if none came. Returns false if the other side is gone.
template <class Message>
[[nodiscard]] bool receive_message(int socket, Message& message, int& descriptor) {
  static_assert(std::is_trivially_copyable_v<Message>);
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  descriptor = -1;
  if (::recvmsg(socket, &header, MSG_CMSG_CLOEXEC) != sizeof message) return false;
  if (const cmsghdr* first = CMSG_FIRSTHDR(&header); first != nullptr)
    std::memcpy(&descriptor, CMSG_DATA(first), sizeof descriptor);
  return true;
}

}  // namespace ration

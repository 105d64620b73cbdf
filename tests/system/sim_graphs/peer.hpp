// Another process on the same simulated node, told what to do over a socket. Descriptors travel both ways.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace ration::testing {

enum class Order : int {
  kAllocate,     // value: size -> address
  kFree,         // value: address
  kIpcGet,       // value: address -> bytes
  kIpcOpen,      // bytes -> address
  kIpcClose,     // value: address
  kCreate,       // value: size -> handle; descriptor
  kImport,       // descriptor -> handle
  kMap,          // value: handle -> address
  kUnmap,        // value: address
  kRelease,      // value: handle
  kPoolImport,   // descriptor -> pool
  kPoolPointer,  // value: pool, bytes -> address
  kFreeAsync,    // value: address
  kRead,         // value: address -> the word there
  kWrite,        // value: address: writes 42 there
};

struct Message {
  int order = 0;  // in an answer: the driver's result
  std::uint64_t value = 0;
  std::uint64_t size = 0;
  unsigned char bytes[64] = {};
};

inline bool send_message(int socket, const Message& message, int descriptor = -1) {
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

/// False: the other side is gone. `descriptor` is -1 where none came.
inline bool receive_message(int socket, Message& message, int& descriptor) {
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

}  // namespace ration::testing

// Reads and replaces small files that other programs may write or read at the same time: specifications of devices,
// states, configurations. Promises: a reader finds either the old content or the new one, whenever the writer dies; no
// link is written through; reading never blocks, and takes no more memory than the caller allows, whatever the path
// leads to.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <tl/expected.hpp>

#include "base/file.hpp"
#include "base/message.hpp"

namespace ration {

/// Replaces the file's content; uses `path`.new meanwhile. Returns false with errno on failure, and then leaves `path`
/// unchanged.
[[nodiscard]] bool write_whole(const std::string& path, const std::string& content, mode_t mode);

enum class Links { kFollowed, kRejected };

/// Opens a regular file for reading, or returns why the file cannot be opened: "it is a pipe". Never waits for the
/// other end of a pipe, and never opens a device.
[[nodiscard]] tl::expected<FileDescriptor, Message> open_regular(const std::string& path,
                                                                 Links links = Links::kFollowed);

/// Returns a path by which the open file can be opened again, even if its former name leads elsewhere now.
[[nodiscard]] std::string path_of(const FileDescriptor& file);

constexpr std::size_t kMostOfOneFile = std::size_t{16} << 20;  // bytes; a container's configuration has 40 KiB

/// Returns the content of a regular file, or why it cannot be read, for example that it has more than `most` bytes.
[[nodiscard]] tl::expected<std::string, Message> read_whole(const std::string& path, std::size_t most = kMostOfOneFile,
                                                            Links links = Links::kFollowed);

/// Returns the content of an open file, which may be a pipe, or why it cannot be read.
[[nodiscard]] tl::expected<std::string, Message> read_whole(int file, std::size_t most = kMostOfOneFile);

}  // namespace ration

// Small files that others write, or read while they are written: specifications of devices, states, configurations.
// Promises: a reader finds the old content or the new one, whenever the writer dies; no link is written through;
// reading waits for nobody and takes no more memory than the caller allows, whatever lies under the path.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <tl/expected.hpp>

#include "base/file.hpp"

namespace ration {

/// False: `path` is as it was, and errno says why. `path`.new is used meanwhile.
[[nodiscard]] bool write_whole(const std::string& path, const std::string& content, mode_t mode);

enum class Links { kFollowed, kRejected };

/// Opens a regular file for reading, or returns why it is none: "it is a pipe". A pipe's other end is not waited for,
/// and no device is opened.
[[nodiscard]] tl::expected<FileDescriptor, std::string> open_regular(const std::string& path,
                                                                     Links links = Links::kFollowed);

/// A path under which that open file can be opened once more, whatever its former name leads to by now.
[[nodiscard]] std::string path_of(const FileDescriptor& file);

constexpr std::size_t kMostOfOneFile = std::size_t{16} << 20;  // bytes: a container's configuration has 40 KiB

/// Returns the content of a regular file, or why it cannot be had: it is none, or has more than `most` bytes.
[[nodiscard]] tl::expected<std::string, std::string> read_whole(const std::string& path,
                                                                std::size_t most = kMostOfOneFile,
                                                                Links links = Links::kFollowed);

/// The same of an open file, a pipe too.
[[nodiscard]] tl::expected<std::string, std::string> read_whole(int file, std::size_t most = kMostOfOneFile);

}  // namespace ration

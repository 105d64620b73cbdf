// The workload of this process: its book, and the functions that make one for a program that was started without
// `ration run`. Used by runtime.cpp, runtime_memory.cpp and the C interface. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "book/book.hpp"

namespace ration::runtime {

/// Puts this process, and the children that it starts from now on, under limits of its own. Runs `ration activate` to
/// make a book with every GPU, sets the variables that `ration run` sets, and loads the guard under the driver's name,
/// so that code that loads the driver later gets the guard. Calls no driver function and starts no thread. Does nothing
/// in a governed process. Throws RuntimeError if the driver is loaded already, UnknownError if there can be no book,
/// for example without a GPU.
void activate();

/// Makes a book and sets the variables for a process in which the driver is loaded already and which replaces itself
/// (exec), so that the new program is governed. Does nothing in a governed process. Throws UnknownError as activate()
/// does.
void prepare_restart();

/// Returns the book of this process, made by `ration run` or activate(), or null if none can be opened.
[[nodiscard]] book::Book* own_book();

/// Returns the account of GPU `number`, counted as the driver does under this process's CUDA_VISIBLE_DEVICES, or
/// nullopt if the GPU has no account. Does not call the driver.
[[nodiscard]] std::optional<std::uint32_t> account_of_gpu(const book::Book& book, std::size_t number);

/// Returns the highest limit that the program may set itself on a device. Sizes in percent are parts of that limit.
[[nodiscard]] Bytes whole_of(const book::Book& book, std::uint32_t account);

/// Sets the workload's own limit. Throws ValueError if it is below 2 MiB or above whole_of().
void set_own_limit(book::Book& book, std::uint32_t account, Bytes limit);

}  // namespace ration::runtime

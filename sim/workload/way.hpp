// The ways of taking memory that the probe tries.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "driver/cuda_abi.hpp"

namespace ration::workload {

/// A way of taking memory: `take` takes `request` bytes, `drop_all` frees all that it took.
struct Way {
  const char* name;
  std::function<cuda::CUresult(std::size_t request)> take;
  std::function<void()> drop_all;
  int device = 0;                  ///< the device whose memory it takes
  std::size_t devices = 1;         ///< the number of devices that it needs
  const char* function = nullptr;  ///< a function of the driver that older releases lack
};

/// Returns the ways that checkpoint the process. They must be tried first, because a process that has used managed or
/// shared memory does not survive a checkpoint.
std::vector<Way> checkpointed_ways();
std::vector<Way> array_ways();
std::vector<Way> code_ways();
std::vector<Way> graph_ways();
std::vector<Way> pool_ways();
std::vector<Way> handle_ways();
std::vector<Way> shared_ways();
/// Returns the ways of child processes, which are held only under `ration run`. Under a limit that a process set for
/// itself, a child has the guard only if it keeps the environment.
std::vector<Way> child_ways();

/// Requests more memory than there is. Before the request is denied, the memory of dead processes is reclaimed.
void look_for_the_dead();

/// Opens the IPC handles that come on standard input, and keeps them open until standard input is closed.
int keep_open();
/// Fills memory; if `shared`, a child opens the memory, too. Prints `holds` and the numbers of these processes. After a
/// line on standard input, prints `kept` if the contents are unchanged and driver calls work in all of these processes,
/// else `lost`.
int keep(std::size_t size, bool shared);
/// Takes memory, sends it as `form` (parcels.hpp) over the socket that is its standard output, and waits to be killed.
int give(std::size_t size, const std::string& form);
/// Follows the orders on standard input, one per line, and prints one answer for each. `take MIB` and `managed MIB`
/// take memory, and `free` frees it. `context` makes a context beside the primary one, and `leave` ends it. `heap MIB`
/// sets the heap of the current context's kernels. `checkpoint` moves this process's memory to the host, and `restore`
/// moves it back. `outlive` ends the process and goes on in a child made by the clone system call. Over `socket`, `ipc
/// MIB`, `descriptor MIB` and `pool MIB` export memory, and `drop` gives all of it up; `receive` takes a parcel,
/// `import` opens all that were received, and `let-go` closes them.
int obey(int socket);
/// Prints `ready`, waits until the FIFO at `gate` is opened for writing, makes `calls` random driver calls from each of
/// `threads` threads, frees everything except its context, prints `returned`, and ends when the gate is closed. Exits
/// with 1 if the driver returns an error other than lack of memory.
int call_at_random(std::uint64_t seed, int threads, int calls, const std::string& gate);

/// Retains the primary context in all threads at once, releases it, makes a context in each, and then retains,
/// releases, resets, creates and destroys at random until all are gone. After each part, prints its name (`retained N`,
/// `released`, `created N`, `ended`) and waits for a line.
int make_contexts(std::uint64_t seed, int threads, int calls);

/// Makes `rounds` rounds of the pair of calls of that name (races.cpp), from two threads at once. Then frees
/// everything, prints `ended` and waits for a line. Returns 2 if there is no such pair.
int race(const std::string& pair, int rounds, std::uint64_t seed);

}  // namespace ration::workload

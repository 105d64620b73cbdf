// One way of taking memory, for the probe.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "driver/cuda_abi.hpp"

namespace ration::workload {

/// `take` takes `request` bytes, `drop_all` gives back all that was taken.
struct Way {
  const char* name;
  std::function<cuda::CUresult(std::size_t request)> take;
  std::function<void()> drop_all;
  int device = 0;                  ///< whose memory it takes
  std::size_t devices = 1;         ///< that it needs
  const char* function = nullptr;  ///< of the driver, which older releases lack
};

/// To be tried first: a process that has used managed or shared memory does not survive a checkpoint.
std::vector<Way> checkpointed_ways();
std::vector<Way> array_ways();
std::vector<Way> code_ways();
std::vector<Way> graph_ways();
std::vector<Way> pool_ways();
std::vector<Way> handle_ways();
std::vector<Way> shared_ways();
/// Held under `ration run` alone: under a limit from inside, a child has the guard only if it keeps the environment.
std::vector<Way> child_ways();

/// Asks for more than there is: before that is denied, what the dead left is looked for.
void look_for_the_dead();

/// Opens the IPC handles that come on standard input, and keeps them open until it closes.
int keep_open();
/// Fills memory, with `shared` opened by a child, too; says `holds` and the numbers of its processes; after a line on
/// standard input says `kept` where the contents are as they were and driver calls work in both, else `lost`.
int keep(std::size_t size, bool shared);
/// Takes memory, sends it as `form` (parcels.hpp) over the socket that is standard output, and waits to be killed.
int give(std::size_t size, const std::string& form);
/// Does what the lines on standard input say, one answer a line: `take MIB`, `managed MIB`, `free`, `context` and
/// `leave` (one beside the primary), `heap MIB` (of the current context's kernels), `checkpoint`, `restore`, `outlive`
/// (end, and go on in a child made by the clone system call); over `socket`, `ipc MIB`, `descriptor MIB` and `pool MIB`
/// export memory (`drop` gives all of it up), `receive` takes what was sent, `import` opens all that was received,
/// `let-go` closes it.
int obey(int socket);
/// Says `ready`, waits until the FIFO at `gate` is opened for writing, makes `calls` random driver calls from each of
/// `threads` threads, gives everything back but its context, says `returned`, and ends when the gate is closed. Exits
/// with 1 where the driver answers with something else than success or want of memory.
int call_at_random(std::uint64_t seed, int threads, int calls, const std::string& gate);

/// Retains the primary context in all threads at once, releases it, makes a context in each, and then retains,
/// releases, resets, creates and destroys at random until all are gone. After each it says so (`retained N`,
/// `released`, `created N`, `ended`) and waits for a line.
int make_contexts(std::uint64_t seed, int threads, int calls);

/// Makes so many rounds of the pair of calls of that name (races.cpp), from two threads at once; gives everything back,
/// says `ended` and waits for a line. 2: there is no such pair.
int race(const std::string& pair, int rounds, std::uint64_t seed);

}  // namespace ration::workload

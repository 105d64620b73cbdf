#include <fmt/format.h>

#include "cli/text/reference.hpp"
#include "config/printer.hpp"
#include "config/variables.hpp"

namespace ration::cli {
namespace {

std::string variables_text() {
  std::string text = "Variables that ration reads:\n\n";
  for (const auto& variable : config::variables())
    text += std::string("  ") + variable.name + "\n      " + variable.meaning + "\n";
  return text +
         "\nVariables that ration run sets for the program: LD_PRELOAD, LD_AUDIT (--require-enforced), RATION_BOOK, "
         "CUDA_VISIBLE_DEVICES, "
         "CUDA_DEVICE_ORDER=PCI_BUS_ID, and, unless\n"
         "they are set already, TF_FORCE_GPU_ALLOW_GROWTH=true, XLA_PYTHON_CLIENT_PREALLOCATE=false and\n"
         "TF_DEVICE_MIN_SYS_MEMORY_IN_MB=128 (what TensorFlow leaves unused; else 225 to 1,800 MiB). `ration env` "
         "prints them.\n"
         "Colour: NO_COLOR, CLICOLOR_FORCE, TERM=dumb.\n";
}

std::string configuration_text() {
  std::string text =
      config::layers_text() + "\nration config init writes a file to begin with; man ration.toml is the reference.\n";
  for (const auto& section : config::reference()) {
    text += "\n" + section.header + "   " + section.meaning + "\n";
    for (const auto& key : section.keys) text += fmt::format("  {:<20} {}\n", key.name, key.meaning);
  }
  return text + "\n" + config::rules_text();
}

std::string errors_text() {
  std::string text = "Every error has a number, says what, how much and who, and what to type.\n\n";
  for (const ErrorText& error : error_texts())
    text += std::string("  ") + error.id + "  " + error.meaning + "\n         " + error.fix + "\n";
  return text;
}

}  // namespace

const std::vector<Topic>& topics() {
  static const std::vector<Topic> all{
      {"units", "sizes as people write them",
       "  4GiB 4G 4g 512MiB 512M   binary: G is GiB, M is MiB, K is KiB, as in docker and systemd\n"
       "  8GB 512MB                decimal: 10^9, 10^6\n"
       "  50%                      of the GPU's physical total, whatever is free\n"
       "  50%free                  of what is free now\n"
       "  max  max-1GiB            all of it; all but 1 GiB\n"
       "  unlimited                no limit (bookkeeping only)\n\n"
       "A bare number is not accepted: TensorFlow means MiB by it, PyTorch a fraction, others bytes.\n"
       "Limits are rounded down to the device's granule of 2 MiB. Printed sizes have three digits; --units si or bytes "
       "changes that. JSON has exact bytes.\n"},
      {"limit", "what a limit is",
       "The most bytes of one GPU that the processes of a workload can hold together. More is denied: the call fails "
       "as on "
       "a full\ncard (CUDA_ERROR_OUT_OF_MEMORY). Inside, the limit is the whole device.\n\n"
       "  ration run --limit 4GiB -- python train.py   give one\n  ration set train --limit 6GiB                while "
       "it runs; "
       "+1GiB or -1GiB: more or less\n  ration why train                             what was denied at it, and what "
       "to type\n\n"
       "The limit in force may be lower for a while, where a tenant's limit, a policy or somebody's guarantee needs "
       "the "
       "room:\nration ps says why. Inside, the device stays as large as the limit that was granted, and free is what "
       "can be "
       "taken now.\nration run says before the start where that is less, and for whom the rest is kept; with "
       "--require-limit it does not start then.\nA limit promises nothing: what is promised is a guarantee (ration "
       "help "
       "guarantee).\n"},
      {"guarantee", "what a guarantee is",
       "Bytes of one GPU that are kept for a workload, or for a tenant: where the daemon runs, nobody else is granted "
       "them, "
       "used or not.\nTogether guarantees, slices and what is kept free never exceed the GPU; one that does not fit is "
       "an error when it is asked for.\n\n"
       "  ration run --guarantee 4GiB --limit 8GiB -- …   4 GiB promised, up to 8\n"
       "  ration set train --guarantee 2GiB               less, or none\n"
       "  ration explain --gpu 0                          who is promised what\n\n"
       "A guarantee is kept against other governed programs only, never against programs without a limit.\n"},
      {"tenant", "what a tenant is",
       "Whoever a workload is charged to: a person, a team, a service. Tenants are written in ration.toml "
       "([[tenant]]), with "
       "a limit and\na guarantee over all of their workloads on a GPU, a priority and a price; a workload's tenant is "
       "the one "
       "whose match fits it,\nor the one that ration run --tenant asks for. Where "
       "nothing says so it is the user with a daemon,\nwhich knows who asks, and 'default' without one, where all "
       "books are "
       "one user's.\n\n"
       "  ration ps --tenant nlp                 what runs of it\n  ration set nlp --limit 20GiB           change its "
       "limit\n"
       "  ration report --by tenant              what it used\n"},
      {"exit-codes", "what the exit codes mean",
       "  0    done; the check passed\n  1    the operation failed, and the message says why\n  2    wrong usage, or "
       "configuration that cannot be used\n"
       "  3    not found; nothing matched; no GPU\n  4    does not fit now (fits, plan, split, set, guarantees), "
       "or nobody confirmed it (set, stop)\n  5    permission\n"
       "  6    the limit would not hold for this program: it was not started\n\n"
       "ration run ends with the program's own code, or 128 + the signal that killed it; 125 ration itself failed;\n"
       "124 --wait=TIME was over; another number of the table above if ration did not start it;\n"
       "126 found but not executable; 127 not found.\nration doctor: 0 no check failed, 1 at least one did; with "
       "--strict warnings count.\n"},
      {"env", "environment variables", variables_text()},
      {"config", "the configuration file", configuration_text()},
      {"simulated", "what the simulated GPU does, and what it does not",
       "ration run --sim puts a simulated driver in front of NVIDIA's and, where the program's environment has a CUDA "
       "runtime (12 or 13),\na simulated runtime and stand-ins for cuBLAS, cuBLASLt, cuDNN, cuFFT, cuSOLVER's dense "
       "part,\ncuSPARSE, cuRAND and NCCL.\n\n"
       "True: devices, properties, everything about memory, copies and fills with their contents, streams, events, "
       "graphs, sharing,\nwhat NCCL moves between the ranks of one machine, denials.\n"
       "Not computed: the results of kernels, of the mathematics libraries and of NCCL's reductions. Memory keeps what "
       "it held (zero when "
       "new), so losses,\naccuracies and sampled values mean nothing; a program that branches on them takes one "
       "branch.\n"
       "Assumed: workspaces of cuBLAS (4 MiB a handle, 32 MiB from compute capability 9 on) and cuDNN (8 MiB a "
       "plan),\ncuFFT (what is transformed, 8 times that for large prime factors), cuSOLVER and cuSPARSE (as much as "
       "their matrices).\n"
       "Not there: textures and other calls that are rare; their errors name the function.\n"
       "Cannot start: libraries with NVIDIA's CUDA runtime linked in (CuPy, XGBoost, cuda.bindings.runtime), which "
       "asks "
       "the driver for\nprivate functions; a line on standard error names the library.\n"
       "Never ends, or is silently empty, because it reads a value that a kernel computes: generate() of vLLM's second "
       "model runner (set\nVLLM_USE_V2_MODEL_RUNNER=0), TensorBoard's scalars, torch.distributed's object lists over "
       "NCCL "
       "alone (start it with\ninit_process_group('cpu:gloo,cuda:nccl')). The list: docs/frameworks.md.\n\n"
       "Each program finds the CUDA version that it asks for, also behind bash, torchrun or uv. One alone: --sim-cuda "
       "12, "
       "13 or none.\nWithout ration run: ration sim env.\n"},
      {"enforcement", "what holds a limit, and what it cannot stop",
       "The guard is a pair of libraries with the driver's own names (libcuda.so.1, libnvidia-ml.so.1), preloaded into "
       "the program and everything it starts.\n"
       "Every way to take device memory that the driver API has goes through it, however the function was found. The "
       "limit itself lies in the book, not in the environment.\n\n"
       "The driver behind the guard is the one that the program would have loaded: DT_RPATH, LD_LIBRARY_PATH and "
       "DT_RUNPATH as the dynamic linker reads them, /etc/ld.so.cache, then the folders\n"
       "of the linker, of Debian (nvidia/current), Jetson (nvidia, tegra), WSL 2, NixOS and GKE. A file that the "
       "program opens by its path is taken; one of the toolkit's stubs is not. ration doctor --only gpu.files\n"
       "names what was found.\n\n"
       "What a program of the workload starts gets the guard and the book back, whatever LD_PRELOAD or environment its "
       "launcher gave it, unless --allow-ungoverned is given.\n"
       "It cannot stop: statically linked, set-uid and musl programs; a program that starts others by a system call of "
       "its own without LD_PRELOAD or RATION_BOOK, reads the driver's symbol tables itself or talks to the kernel "
       "driver;\n"
       "processes started outside. ration run does not start what can be seen beforehand (ssh, srun, a tmux whose "
       "server "
       "runs already), unless --allow-ungoverned is given; a static program is started, since only what it starts can "
       "load a driver. Such a launcher that a script starts is named by ration ps beside the workload. What shows "
       "later is UNGOVERNED in ration ps and named when the program has ended.\n"
       "With --require-enforced the dynamic linker asks the guard, too (LD_AUDIT): it then holds a program that is "
       "given a driver in front of the guard, needs one by its path, or opens it through\n"
       "dlopen() or dlmopen() fetched from libc's own handle (dlsym(dlopen(\"libc.so.6\"), \"dlopen\")). Without it "
       "such "
       "a program takes memory unseen by the book; the daemon reports it as not governed.\n"
       "The price: a program that is linked with libraries of more than 3 KiB of static thread-local memory does not "
       "start; raise it with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536.\n"
       "Nor a program that writes its own book, which is its user's file: the daemon puts the limit back at its next "
       "look "
       "and records a violation, and what was taken\n"
       "meanwhile stays taken. Where the driver itself holds the limit (release 615, ration help config) it holds all "
       "of "
       "these.\n"
       "A guarantee is reserved against other guarantees and slices; programs without any limit can still take what is "
       "free.\n\n"
       "Functions of the driver that ration does not know, those of a later release, work and are not held. Of those "
       "that may concern memory by their names the first call is noted:\n"
       "ration ps, ration doctor and the metric ration_unlisted_functions say so.\n"
       "What the driver takes without being asked (local memory of kernels, code in forms that do not tell its size, "
       "contexts of private functions) the daemon finds by comparison: its row shows it, and from then on the limit\n"
       "binds it. Without a daemon it is not held. Stacks, and the code and global variables of cubins, are charged "
       "when they are asked for.\n"
       "Managed memory (cudaMallocManaged, TF_FORCE_UNIFIED_MEMORY): what may be on the device counts; the rest is "
       "kept "
       "in host memory, and moved there when other memory needs the room. --managed charge counts every byte,\n"
       "--managed ignore none. It is charged on the device on which it was taken; a kernel of another device that "
       "touches it is not held.\n"
       "nvidia-smi under ration run: what it asks NVML's public functions is the workload's (the limit is the total, "
       "what the workload holds is used). Since release 535 it reads the\n"
       "list of processes, and some figures, through a private table of NVML that nothing may stand in front of: these "
       "are the machine's.\n"},
      {"containers", "limits for containers",
       "The daemon (as root) describes each tenant and each slice of this node to container engines as a device, in "
       "/var/run/cdi. A container is\nput under the limit by one option of its own engine, beside NVIDIA's:\n\n"
       "  docker run --device nvidia.com/gpu=0 --device ration.sh/tenant=nlp IMAGE\n"
       "  podman run --device nvidia.com/gpu=0 --device ration.sh/gpu=0.2 IMAGE     a slice, of one container at a "
       "time\n"
       "  ration inject docker --limit 4GiB -- run --gpus all IMAGE                 a limit of its own\n"
       "  ration inject compose --limit 4GiB -- -f compose.yaml up                  services of a compose file\n"
       "  ration inject oci BUNDLE --limit 4GiB                                     config.json of runc, crun, ctr\n\n"
       "Docker 25 and newer, Podman 4, containerd 1.7 and CRI-O read these descriptions (the Container Device "
       "Interface). For others: --without-cdi.\n"
       "The container gets the guard and /etc/ld.so.preload, which its own root cannot change without CAP_SYS_ADMIN, "
       "and its book. No variable holds the limit.\n"
       "It does not start where the limit would not hold: without the daemon, with musl, with a glibc older than 2.17. "
       "What is statically linked\nin it is not held: the daemon shows it as UNGOVERNED where it takes memory of a "
       "GPU.\n"
       "Not held either, and UNGOVERNED where it takes memory: what unmounts the guard (--privileged, CAP_SYS_ADMIN, a "
       "user namespace of its own where the "
       "engine's seccomp profile allows one:\nPodman's does, Docker's does not), what enters another root (chroot), a "
       "copy of the driver or of the dynamic "
       "linker, a container inside a container. A program that writes into\nits own book may hold more: its workload "
       "stays, counts as if it held all it may, and is BOOK ALTERED in ration ps. "
       "[defaults] ungoverned = \"terminate\" "
       "ends what escapes.\n"
       "ration ps names containers as their engine does; their image and engine are labels.\n"},
      {"slurm", "limits for jobs of Slurm",
       "Slurm places shares of GPUs and accounts them (gres/shard, in MiB of one GPU); ration holds them on the "
       "node:\n\n"
       "  srun --gpu-mem=4GiB python train.py\n"
       "  sbatch --gpu-mem=4GiB --gpu-mem-guarantee=2GiB job.sh\n"
       "  ration snippet slurm --node NAME     what Slurm's configuration has to say of this machine\n"
       "  ration report --slurm JOB            what a job was granted here and used; agrees with sacct\n\n"
       "The daemon runs as root on each node; Slurm loads ration's plugin (ration_spank.so, made with that "
       "Slurm's headers of share/ration/slurm/ration_spank.cpp) and has cli_filter.lua and\njob_submit.lua beside "
       "slurm.conf. A job is one workload a node, slurm-JOB, charged "
       "to "
       "its user, for all its steps. Its tasks have the guard,\n/etc/ld.so.preload and their book in a mount namespace "
       "of "
       "their own: no variable leads away from them.\n"
       "A job with a share does not start where its limit would not hold: without the daemon, without "
       "PrologFlags=Alloc,Contain, without cli_filter.lua.\n"
       "Not held: static programs with a CUDA of their own, user namespaces, containers that a job starts, ssh to the "
       "node. What takes memory of a GPU so is UNGOVERNED in ration ps.\n"},
      {"schema", "JSON output",
       "ration help schema VERB prints the JSON schema of ration VERB -o json; the daemon's answers have theirs, too.\n"
       "Every document has schema, time, host, source, data, warnings. Bytes are integers named *_bytes. Unknown is "
       "null with a reason in <field>_na.\n"
       "Fields may be added, never renamed or retyped, within a version. When a command fails the document has error "
       "{id, message, fix, exit_code}.\n"},
      {"errors", "the errors and what to do", errors_text()},
  };
  return all;
}

}  // namespace ration::cli

#include <fmt/format.h>

#include "cli/reference.hpp"
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
         "they are set already, TF_FORCE_GPU_ALLOW_GROWTH=true and XLA_PYTHON_CLIENT_PREALLOCATE=false. `ration env` "
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

const std::vector<ErrorText>& error_texts() {
  static const std::vector<ErrorText> all{
      {"E1001", "the command line cannot be read", "ration VERB --help shows what can be typed"},
      {"E1002", "what is to be printed cannot be written", "look at what standard output and error are redirected to"},
      {"E1101", "a size without a unit (TensorFlow means MiB, PyTorch a fraction, others bytes)",
       "write 4096MiB, 4GiB or 50%"},
      {"E1102", "not a size", "write 4GiB, 512MiB, 50%, 50%free, max-1GiB"},
      {"E1103", "a fraction", "write 50% (of the GPU) or 512MiB"},
      {"E1104", "more than the GPU has", "use --limit max, or another --gpu"},
      {"E1105", "less than one granule of device memory, 2 MiB", "give more than a CUDA context takes: 1GiB"},
      {"E1106", "not a duration", "write 500ms, 30s, 5m or 2h"},
      {"E1204", "the limit is less than one CUDA context costs on this driver", "give at least what the message says"},
      {"E1205", "leaving less than is held needs a yes",
       "ration set NAME --limit SIZE --yes, or ration split GPU … --yes"},
      {"E1302", "that many bytes do not fit on any GPU now", "ration ps shows who holds them"},
      {"E1304", "a guarantee that cannot be promised beside those already given",
       "the message names the smallest change that fits"},
      {"E1305", "a guarantee above its own limit", "raise --limit or lower --guarantee"},
      {"E1306", "these tenants do not fit on these GPUs", "the message names the smallest change that fits"},
      {"E1307", "not a tenant to plan with", "--tenant NAME=GUARANTEE[:LIMIT][*COUNT]: nlp=16GiB:30GiB, jup=4GiB*6"},
      {"E1308", "not a GPU to plan with", "--gpu A100-40:2; the message lists the models, any other is NAME:SIZE"},
      {"E1309", "what --wait asked for was not free within its time", "ration ps shows who holds it"},
      {"E1310", "--wait without a limit", "ration run --wait --limit 20GiB -- PROGRAM"},
      {"E1311", "not a step of a limit", "--retry-limit +25%, or +2GiB"},
      {"E1401", "the program cannot be started", "make it executable, or name its interpreter"},
      {"E1402", "no program, or a word before '--' that is not an option of ration",
       "ration run --limit 4GiB -- prog --batch 64"},
      {"E1403", "no GPU, or no driver", "in Docker add --gpus all; without a GPU: --sim=T4"},
      {"E1404", "the limit would not hold for this program",
       "what the message names; --allow-ungoverned starts it all the same"},
      {"E1405", "the runtime directory cannot be written", "export RATION_RUNTIME_DIR=<a folder of yours>"},
      {"E1406", "part of the installation is missing", "install the whole package again"},
      {"E1407", "no such GPU", "ration ps lists them"},
      {"E1408", "not an answer to a denial", "--on-deny fail, wait or wait:30s"},
      {"E1409", "not a name", "use up to 59 letters without spaces, commas, quotes or slashes"},
      {"E1410", "a workload of that name is running", "choose another --name, or leave it out"},
      {"E1411", "a book cannot be changed", "ration doctor --only books"},
      {"E1412", "not a number that can be explained", "d-17-3 (a denial), 42 (an event), q-5 (in the queue)"},
      {"E1413", "no such denial on the books", "ration ps"},
      {"E1414", "ration run inside a workload that is under a limit already", "ration set changes that limit"},
      {"E1415", "not a label", "--label key=value"},
      {"E1416", "unknown way of counting", "--account device or heap; --managed resident, charge or ignore"},
      {"E1417", "not a simulated node", "--sim=T4, --sim='T4:16GiB*2,A100-40'"},
      {"E1418", "unknown kind of summary", "--summary auto, always, never or json:FILE"},
      {"E1419", "the program was not found", "give its path, or look at PATH"},
      {"E1420", "nothing to change", "ration set NAME --limit SIZE"},
      {"E1421", "no check of that name", "ration doctor lists them"},
      {"E1422", "no such topic", "ration help lists them"},
      {"E1423", "no such shell", "ration completion bash, zsh or fish"},
      {"E1424", "the guard's path has a space or a colon, which LD_PRELOAD cannot carry",
       "move ration, or export RATION_RUNTIME_DIR=<a folder without spaces>"},
      {"E1425", "the program's CUDA runtime is not simulated", "use its build for CUDA 12 or 13, or --sim-cuda none"},
      {"E1426", "not a CUDA version", "--sim-cuda 12, 13, auto or none"},
      {"E1427", "this machine does not run systemd", "ration serve runs the daemon in the foreground"},
      {"E1428", "a unit of systemd cannot be written or is not there",
       "sudo ration service install, or ration service install --user"},
      {"E1429", "a filter that cannot be understood", "used>4GiB & denied>0, tenant~=nlp, governed==no, idle>30m"},
      {"E1430", "the terminal cannot be drawn on", "TERM=xterm ration top, or ration top --once"},
      {"E1431", "nothing that can be sorted by", "--sort=-used,name"},
      {"E1441", "a scenario of ration demo cannot be used", "the message names the line"},
      {"E1442", "not a step of a program", "2GiB:10s, 2GiB:30s:idle, or one block more: +1GiB:5s"},
      {"E1443", "the demo could not be started", "the message says what the daemon said"},
      {"E1444", "--sim=demo, and no demo of this user runs, or not that one", "ration demo in another terminal"},
      {"E1445", "--sim=demo, and several demos run", "name one: --sim=demo:4711, as it prints it"},
      {"E1446", "a program that asked for a limit from inside ended meanwhile", "start it again"},
      {"E1450", "a workload's book was written by another version of ration",
       "use the ration that started it, which the message names"},
      {"E1500", "the daemon failed at a request: a bug", "look at its log; nothing was changed"},
      {"E1501", "no daemon runs", "ration serve, or ration service install --now"},
      {"E1502", "not yours to do", "the message says whom to ask; of a tenant: leave --tenant out"},
      {"E1503", "somebody else changed it meanwhile", "look, then repeat"},
      {"E1504", "another daemon is there already", "stop it, or give this one another --socket"},
      {"E1505", "an address that others can reach needs a token", "the message shows how to make one"},
      {"E1506", "the token file can be read by others, or is none", "chmod 600 it"},
      {"E1507", "the daemon cannot listen there",
       "give another --listen or --socket; --listen 127.0.0.1:0 takes a free port"},
      {"E1508", "the daemon did not answer", "ration doctor; its log says more"},
      {"E1510", "not a request of HTTP/1.1", "curl --unix-socket … http://localhost/api/v1/snapshot"},
      {"E1511", "no such path", "GET /openapi.json lists them"},
      {"E1512", "the path is there, but not with that method", "the answer's Allow header lists them"},
      {"E1513", "a Host that is not the daemon's", "use the address it was started with"},
      {"E1514", "a page of another origin asks", "open the daemon's own dashboard"},
      {"E1515", "a write whose body is not JSON", "Content-Type: application/json"},
      {"E1516", "a request that is too large", "the message says what may be sent"},
      {"E1517", "too many clients, or questions", "try again in a few seconds"},
      {"E1518", "a wrong token, or a link that was used", "ration dashboard prints a new link"},
      {"E1519", "a request that never ended", "send it whole"},
      {"E1520", "only a compressed answer is there", "accept gzip"},
      {"E1521", "the body of a request cannot be understood", "docs: the HTTP interface"},
      {"E1522", "the daemon has only just started", "try again in a second"},
      {"E1523", "on TCP nobody's user is known", "ask on the socket"},
      {"E1524", "that lease is not granted to you", "ration run --wait --limit SIZE -- PROGRAM"},
      {"E1525", "the process that asks cannot be seen by the daemon", "ask from the host's pid namespace"},
      {"E1526", "no such lease", "ration ps shows who waits"},
      {"E1527", "a parameter of a request cannot be understood", "the message shows what can be given"},
      {"E1528", "too many leases of one user", "let some of them end: ration ps"},
      {"E1529", "too many schedules", "ration set --schedule NAME=off"},
      {"E1530", "not a folder of books of that user", "export RATION_RUNTIME_DIR=<a folder of yours>"},
      {"E1531", "the daemon's state cannot be written", "free some space, or ration serve --state FOLDER"},
      {"E1532", "the daemon governs other GPUs", "RATION_SOCKET=<the socket of the one that governs these>"},
      {"E1533", "the daemon listens on no port", "listen = \"127.0.0.1:7077\" under [daemon] in ration.toml"},
      {"E1541", "this driver cannot move a program's memory to the host", "driver 570 or newer; or ration trim NAME"},
      {"E1542", "the driver does not let this user move that program's memory", "run the daemon as root"},
      {"E1543", "the program computes: its memory cannot be moved now", "try again when it rests"},
      {"E1544", "no room on the device for what has to come back", "ration ps shows who holds it"},
      {"E1545", "the driver did not move memory, or lost the process", "ration doctor; ration events says which"},
      {"E1546", "it is suspended already, or is not", "ration ps"},
      {"E1548", "a program that the daemon needs cannot be started", "the message names it; curl sends alerts"},
      {"E1549", "somebody took it out of the queue", "ration run --wait again, or ask who did"},
      {"E1547", "it cannot be suspended now", "the message says why"},
      {"E1551", "this driver holds no limits of cgroups itself",
       "the shim holds them; release 615 and newer does both"},
      {"E1552", "this user may not set the driver's limits of cgroups", "run the daemon as root"},
      {"E1553", "the driver did not accept a limit of a cgroup", "ration doctor"},
      {"E1601", "the configuration cannot be used; nothing of it was applied", "ration help config"},
      {"E1602", "slices that do not fit the GPU", "make the last one smaller, or 'rest'"},
      {"E1603", "a misspelt RATION_ variable", "unset it, and set the one that was meant"},
      {"E1604", "the slice is taken", "choose another, or wait for its workload to end"},
      {"E1605", "a slice together with a limit, a guarantee or a GPU", "leave those out: the slice brings its own"},
      {"E1606", "the file of the slices is damaged", "remove it and split again"},
      {"E1607", "the names of slices do not fit", "one name a slice, each once"},
      {"E1608", "no such slice", "ration split shows them"},
      {"E1609", "how to split was not said, or said twice", "ration split 0 --into 4"},
      {"E1610", "there is a configuration file already", "ration config init --force replaces it"},
      {"E1611", "the configuration file cannot be written", "ration config init FILE"},
      {"E1701", "a container's runtime did not describe the container to ration's hook", "ration help containers"},
      {"E1702", "a container's image is one that the guard cannot be loaded in",
       "use an image with glibc 2.17 or newer; alpine and busybox have another C library"},
      {"E1703", "a container's book cannot be mounted in it", "hooks have to run as root: ration help containers"},
      {"E1704", "the devices of this node cannot be written where container engines look",
       "[containers] cdi in the configuration names the folder"},
      {"E1705", "another file specifies a device of that name", "remove that file"},
      {"E1706", "no such device of containers", "--device ration.sh/tenant=NAME, /gpu=SLICE or /limit=4GiB-gpu0"},
      {"E1707", "what follows ration inject cannot be put under a limit", "the message shows a command that can"},
      {"E1802", "several running workloads have that name",
       "USER/NAME, TENANT/NAME or the number of its run; ration ps"},
      {"E1801", "no running workload or process, or no tenant, of that name", "ration ps"},
      {"E1807", "the process is not governed", "start it through ration run"},
      {"E1911", "the database was written by a newer ration", "update ration, or give another --state"},
      {"E1912", "the database cannot be used", "look at the folder's owner and the free space"},
      {"E1913", "another daemon uses the database", "stop it, or give another --state"},
      {"E1914", "not a month that is closed, or can be", "ration report close 2026-01"},
      {"E1915", "the month is closed already", "its lines never change; corrections are lines of their own"},
      {"E1916", "a question about the past that cannot be answered", "the message says what can be asked"},
      {"E1917", "nothing is recorded of that", "ration events, or ration report --by workload"},
      {"E1918", "a sample that cannot be recorded", "the daemon's log says which"},
      {"E1919", "the database is damaged", "it is set aside and a new one begun"}};
  return all;
}

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
       "room:\nration ps says why. A limit promises nothing: what is promised is a guarantee (ration help "
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
       "Not there: textures and other calls that are rare; their errors name the function.\n\n"
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
       "It cannot stop: statically linked, set-uid and musl programs; a program that takes LD_PRELOAD or "
       "RATION_BOOK out of its children's environment, reads the driver's symbol tables itself or talks to the kernel "
       "driver;\n"
       "processes started outside. ration run does not start what can be seen beforehand, unless --allow-ungoverned is "
       "given; a static program is started, since only what it starts can load a driver. What shows later (a child "
       "that "
       "drops the\npreload) is UNGOVERNED in ration ps and named when the program has ended.\n"
       "With --require-enforced the dynamic linker asks the guard, too (LD_AUDIT): it then holds a program that opens "
       "a "
       "copy of the driver under another name, or the driver itself through\n"
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
       "  ration inject docker --limit 4GiB -- run --gpus all IMAGE                 a limit of its own\n\n"
       "Docker 25 and newer, Podman 4, containerd 1.7 and CRI-O read these descriptions (the Container Device "
       "Interface). For others: --without-cdi.\n"
       "The container gets the guard and /etc/ld.so.preload, which its own root cannot change without CAP_SYS_ADMIN, "
       "and its book. No variable holds the limit.\n"
       "It does not start where the limit would not hold: without the daemon, with musl, with a glibc older than 2.17. "
       "What is statically linked\nin it is not held: the daemon shows it as UNGOVERNED where it takes memory of a "
       "GPU.\n"
       "Not held either: containers with --privileged or CAP_SYS_ADMIN whose root unmounts the guard, and containers "
       "started inside a container.\n"
       "ration ps names containers as their engine does; their image and engine are labels.\n"},
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

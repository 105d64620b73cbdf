package deviceplugin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ration.sh/kubernetes/daemon"
	"ration.sh/kubernetes/inventory"
)

// ChunkBytes is the unit in which memory is offered. Kubelet keeps a list of all units, in memory, in its checkpoint and in what it tells: in MiB, the list of
// one H200 would have 144,000 entries.
const ChunkBytes = int64(1) << 30

// chunks are numbers of chunks of one GPU, each once, in order.
type chunks []int

// id is what kubelet calls a chunk: the GPU's name in the cluster, and a number.
func id(gpu string, number int) string { return fmt.Sprintf("%s.%d", gpu, number) }

// parseIDs reads what kubelet hands out together: chunks of one GPU, since a limit is of one.
func parseIDs(ids []string) (gpu string, numbers chunks, err error) {
	if len(ids) == 0 {
		return "", nil, fmt.Errorf("no chunk of GPU memory was asked for")
	}
	for _, each := range ids {
		at := strings.LastIndex(each, ".")
		number, wrong := strconv.Atoi(each[at+1:])
		if at < 1 || wrong != nil || number < 0 || id(each[:at], number) != each {
			return "", nil, fmt.Errorf("%q is no chunk of GPU memory that this node offers", each)
		}
		if gpu != "" && gpu != each[:at] {
			return "", nil, fmt.Errorf("%d GiB of GPU memory would lie on two GPUs, %s and %s, and a limit is of one. To do: ask for less, or for gpu-N-memory-gib of one GPU", len(ids), gpu, each[:at])
		}
		gpu = each[:at]
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	return gpu, slices.Compact(numbers), nil
}

// String is 0-3,7.
func (c chunks) String() string {
	var parts []string
	for i := 0; i < len(c); {
		j := i
		for j+1 < len(c) && c[j+1] == c[j]+1 {
			j++
		}
		part := strconv.Itoa(c[i])
		if j > i {
			part += "-" + strconv.Itoa(c[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// parseChunks reads what String wrote.
func parseChunks(text string) (c chunks, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		const most = 1 << 16 // GiB: more than any GPU has
		if err != nil || first < 0 || last < first || last >= most {
			return nil, false
		}
		for number := first; number <= last; number++ {
			c = append(c, number)
		}
	}
	return c, slices.IsSorted(c) && c.String() == text
}

// Claims of rationd that were made here. Rationd keeps a claim's name and devices: they say which chunks it is of, so nothing else is on any disk.
const namePrefix = "device-plugin/"

var idForm = regexp.MustCompile(`^chunks-[0-9a-f]{16}$`)

// claimID is the same for the same chunks of the same GPU. It is short: the ids of all claims of a container have to fit into a label of its book.
func claimID(gpu string, numbers chunks) string {
	sum := sha256.Sum256([]byte(gpu + " " + numbers.String()))
	return "chunks-" + hex.EncodeToString(sum[:8])
}

// claimOf is what rationd is asked for.
func claimOf(device daemon.Device, numbers chunks) daemon.Claim {
	bytes := int64(len(numbers)) * ChunkBytes
	return daemon.Claim{Name: namePrefix + numbers.String(), Devices: []daemon.ClaimDevice{{UUID: device.UUID, LimitBytes: bytes, GuaranteeBytes: bytes}}}
}

// held is a claim that was made here, read back.
type held struct {
	daemon.Granted
	gpu     string // its name in the cluster
	numbers chunks
}

// heldOf are those of rationd's claims that were made here.
func heldOf(all []daemon.Granted) (own []held) {
	for _, each := range all {
		text, named := strings.CutPrefix(each.Name, namePrefix)
		numbers, ok := parseChunks(text)
		if !named || !ok || !idForm.MatchString(each.ID) || len(each.Devices) != 1 {
			continue
		}
		own = append(own, held{each, inventory.DeviceName(each.Devices[0].UUID), numbers})
	}
	return own
}

func madeHere(granted daemon.Granted) bool { return len(heldOf([]daemon.Granted{granted})) == 1 }

// heldOn are the chunks of one GPU that claims have.
func heldOn(own []held, gpu string) map[int]bool {
	all := map[int]bool{}
	for _, each := range own {
		if each.gpu == gpu {
			for _, number := range each.numbers {
				all[number] = true
			}
		}
	}
	return all
}

// offered are the chunks of a GPU with so much room: those that claims have, and of the others the first, as many as fit beside them.
func offered(room int64, held map[int]bool) chunks {
	numbers := chunks(slices.Collect(maps.Keys(held)))
	for number := 0; int64(len(numbers)) < room/ChunkBytes; number++ {
		if !held[number] {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers
}

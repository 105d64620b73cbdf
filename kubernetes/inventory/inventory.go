// Package inventory says what Kubernetes is offered of a node: its GPUs as rationd sees them, as devices of dynamic resource allocation.
package inventory

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"ration.sh/kubernetes/daemon"
)

const (
	// Driver is the name under which claims find this driver.
	Driver = "gpu-memory.ration.sh"
	// Memory is the capacity that claims ask for.
	Memory resourceapi.QualifiedName = "memory"

	mib = int64(1) << 20
	// Granule is the unit in which rationd charges.
	Granule = 2 * mib
)

// Keys of the taints of a GPU in trouble. Each keeps new claims away and leaves running pods alone.
const (
	// TaintAbsent: rationd no longer sees the GPU, or rationd itself does not answer.
	TaintAbsent = Driver + "/absent"
	// TaintUngoverned: processes that no limit holds have more of it than is kept free for such.
	TaintUngoverned = Driver + "/ungoverned"
)

var notOfNames = regexp.MustCompile(`[^a-z0-9-]+`)

// DeviceName is what a GPU is called in the cluster: made of its UUID, so that a GPU that is numbered anew after a reboot, or is replaced, is never taken
// for the one that a claim was given.
func DeviceName(uuid string) string {
	name := strings.ToLower(uuid)
	if !strings.HasPrefix(name, "gpu-") && !strings.HasPrefix(name, "mig-") {
		name = "gpu-" + name
	}
	name = notOfNames.ReplaceAllString(name, "-")
	return strings.Trim(name[:min(len(name), 63)], "-")
}

// Room is how many bytes of a GPU Kubernetes may hand out: all of it but what is kept free and what is promised to others. `claimed`: the guarantees of
// Kubernetes's own claims, which the scheduler counts itself.
func Room(device daemon.Device, claimed int64) int64 {
	others := max(0, device.PromisedBytes-claimed)
	return max(0, device.TotalBytes-device.KeepFreeBytes-others)
}

// Policy is in which amounts the memory of a GPU can be asked for. All are bytes.
type Policy struct{ Step, Min, Default, Max int64 }

// PolicyOf is the policy of a GPU with so much room; false where there is too little to offer any. A step is 64 MiB, of small GPUs about 1/64. The least
// claim holds a context, about 500 MiB on a GPU of a data centre, and something beside it.
func PolicyOf(room int64) (Policy, bool) {
	step := Granule
	for step < 64*mib && step*64 < room {
		step *= 2
	}
	up := func(bytes int64) int64 { return (bytes + step - 1) / step * step }
	p := Policy{Step: step, Min: up(min(640*mib, max(room/16, 1))), Max: room / step * step}
	p.Default = min(p.Max, max(p.Min, up(1024*mib)))
	// A policy whose first step leads beyond the GPU is not accepted.
	return p, p.Max >= p.Min+p.Step
}

// Trouble is why new claims should keep away from a GPU.
type Trouble struct{ Key, Value string }

func quantity(bytes int64) *resource.Quantity { return resource.NewQuantity(bytes, resource.BinarySI) }

// Offer is a GPU as a device that many claims share; false where it has too little room to offer any. `trouble` may be nil.
func Offer(device daemon.Device, node daemon.Node, claimed int64, trouble *Trouble) (resourceapi.Device, bool) {
	room := Room(device, claimed)
	policy, ok := PolicyOf(room)
	if !ok {
		return resourceapi.Device{}, false
	}
	shared := true
	offered := resourceapi.Device{
		Name:                     DeviceName(device.UUID),
		AllowMultipleAllocations: &shared,
		Attributes:               attributes(device, node),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{Memory: {
			Value: *quantity(policy.Max),
			RequestPolicy: &resourceapi.CapacityRequestPolicy{
				Default:    quantity(policy.Default),
				ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity(policy.Min), Max: quantity(policy.Max), Step: quantity(policy.Step)},
			},
		}},
	}
	if trouble != nil {
		offered.Taints = []resourceapi.DeviceTaint{{Key: trouble.Key, Value: trouble.Value, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return offered, true
}

func attributes(device daemon.Device, node daemon.Node) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	all := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	text := func(name resourceapi.QualifiedName, value string) {
		const most = 64 // characters of an attribute
		if value != "" {
			value = value[:min(len(value), most)]
			all[name] = resourceapi.DeviceAttribute{StringValue: &value}
		}
	}
	index, simulated := int64(device.Index), node.Simulated
	text("uuid", device.UUID)
	text("productName", device.Name)
	if device.MIG != nil {
		text("parentUUID", device.MIG.UUID)
		text("profile", device.MIG.Profile)
	}
	text("architecture", Architecture(device.Capability))
	text("enforcedBy", device.EnforcedBy)
	version := func(name resourceapi.QualifiedName, told string) {
		if value, ok := Version(told); ok {
			all[name] = resourceapi.DeviceAttribute{VersionValue: &value}
		}
	}
	version("cudaComputeCapability", device.Capability)
	version("driverVersion", node.DriverVersion)
	if len(device.NUMANodes) == 1 {
		all["numaNode"] = resourceapi.DeviceAttribute{IntValue: &device.NUMANodes[0]}
	}
	all["index"] = resourceapi.DeviceAttribute{IntValue: &index}
	all["simulated"] = resourceapi.DeviceAttribute{BoolValue: &simulated}
	return all
}

// architectures by the compute capability that is the first of each; those from the last on have no name yet.
var architectures = []struct {
	major, minor uint64
	name         string
}{{3, 0, "Kepler"}, {5, 0, "Maxwell"}, {6, 0, "Pascal"}, {7, 0, "Volta"}, {7, 5, "Turing"}, {8, 0, "Ampere"}, {8, 9, "Ada Lovelace"}, {9, 0, "Hopper"}, {10, 0, "Blackwell"}, {13, 0, ""}}

// Architecture is what NVIDIA, and NVIDIA's own DRA driver, call the GPUs of a compute capability; empty: it has no name here.
func Architecture(capability string) (name string) {
	numbers, ok := numbersOf(capability)
	if !ok {
		return ""
	}
	for _, each := range architectures {
		if numbers[0] > each.major || numbers[0] == each.major && numbers[1] >= each.minor {
			name = each.name
		}
	}
	return name
}

// Version is a version as the cluster compares versions (semver.org), three numbers of which none begins with a zero: a driver's 580.65.06 is 580.65.6 there.
func Version(told string) (string, bool) {
	numbers, ok := numbersOf(told)
	return fmt.Sprintf("%d.%d.%d", numbers[0], numbers[1], numbers[2]), ok
}

// numbersOf are up to three numbers with points between them; those that are not there are 0.
func numbersOf(text string) (numbers [3]uint64, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) > len(numbers) {
		return numbers, false
	}
	for i, part := range parts {
		number, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return numbers, false
		}
		numbers[i] = number
	}
	return numbers, true
}

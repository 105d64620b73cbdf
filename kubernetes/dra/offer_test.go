package dra

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"ration.sh/kubernetes/daemon"
	"ration.sh/kubernetes/internal/fake"
	"ration.sh/kubernetes/inventory"
)

// taint of the first device that is published; "" of one without.
func (s *scene) taint() string {
	devices := s.published()
	if len(devices) == 0 {
		return "nothing is published"
	}
	if len(devices[0].Taints) == 0 {
		return ""
	}
	return devices[0].Taints[0].Key
}

func TestEachGPUIsOfferedWithItsRoom(t *testing.T) {
	small := fake.GPU(0, 16)
	small.KeepFreeBytes, small.PromisedBytes = gib, 3*gib
	small.NUMANodes = []int64{1}
	s := newScene(t, small, fake.GPU(1, 141))
	kubelet := s.start(quick())
	fake.Until(t, "two devices", func() bool { return len(s.published()) == 2 })
	devices := s.published()
	if got := devices[0].Capacity[inventory.Memory].Value; got.Value() != 12*gib {
		t.Errorf("of 16 GiB, 1 kept free and 3 promised to others, %s are offered", got.String())
	}
	if got := devices[1].Capacity[inventory.Memory].Value; got.String() != "141Gi" || devices[1].AllowMultipleAllocations == nil {
		t.Errorf("of 141 GiB %s are offered", got.String())
	}
	if *devices[0].Attributes["driverVersion"].VersionValue != "580.65.6" || *devices[0].Attributes["uuid"].StringValue != small.UUID || !*devices[0].Attributes["simulated"].BoolValue ||
		*devices[1].Attributes["index"].IntValue != 1 {
		t.Errorf("attributes: %+v", devices[0].Attributes)
	}
	if attributes := devices[0].Attributes; *attributes["architecture"].StringValue != "Hopper" || *attributes["cudaComputeCapability"].VersionValue != "9.0.0" ||
		*attributes["enforcedBy"].StringValue != "shim" || *attributes["numaNode"].IntValue != 1 {
		t.Errorf("attributes: %+v", attributes)
	}
	// A claim of the cluster's is counted by the scheduler: it does not make the GPU smaller.
	if _, err := kubelet.Prepare(s.claim("", of("gpu", small, "4Gi"))); err != nil {
		t.Fatal(err)
	}
	s.rationd.Change(func(n *daemon.Node) { n.Devices[0].PromisedBytes = 2 * gib })
	fake.Until(t, "13 GiB once others are promised less", func() bool {
		value := s.published()[0].Capacity[inventory.Memory].Value
		return value.Value() == 13*gib
	})
}

func TestAGPUInTroubleKeepsNewClaimsAway(t *testing.T) {
	s := newScene(t, fake.GPU(0, 16), fake.GPU(1, 16))
	fast := quick()
	s.start(fast)
	fake.Until(t, "two devices without taints", func() bool { return len(s.published()) == 2 && s.taint() == "" })
	stranger := 2 * gib
	s.rationd.Change(func(n *daemon.Node) { n.Devices[0].UngovernedBytes = &stranger })
	fake.Until(t, "a taint for ungoverned processes", func() bool { return s.taint() == inventory.TaintUngoverned })
	s.rationd.Change(func(n *daemon.Node) { n.Devices[0].KeepFreeBytes = 3 * gib })
	fake.Until(t, "no taint where as much is kept free", func() bool { return s.taint() == "" })
	s.rationd.Change(func(n *daemon.Node) { n.Devices = n.Devices[1:] })
	fake.Until(t, "a taint for a GPU that is gone", func() bool { return s.taint() == inventory.TaintAbsent })
	if devices := s.published(); len(devices) != 2 || len(devices[1].Taints) != 0 || devices[0].Taints[0].Effect != resourceapi.DeviceTaintEffectNoSchedule {
		t.Errorf("published: %+v", devices)
	}
}

func TestANodeWhoseGPUsChangedOffersTheNewOneAndRefusesClaimsOfTheOldOne(t *testing.T) {
	old, other := fake.GPU(0, 16), fake.GPU(1, 16)
	s := newScene(t, old)
	kubelet := s.start(quick())
	fake.Until(t, "the old GPU", func() bool { return len(s.published()) == 1 })
	running, waiting := s.claim("", of("gpu", old, "4Gi")), s.claim("", of("gpu", old, "4Gi"))
	if _, err := kubelet.Prepare(running); err != nil {
		t.Fatal(err)
	}
	s.rationd.Change(func(n *daemon.Node) { n.Devices = []daemon.Device{other} })
	fake.Until(t, "the new GPU beside the old one, which is gone", func() bool { return len(s.published()) == 2 && s.taint() == inventory.TaintAbsent })
	if _, err := kubelet.Prepare(waiting); err == nil || !strings.Contains(err.Error(), inventory.DeviceName(old.UUID)+" is no longer in the node") {
		t.Errorf("a claim of a GPU that is gone: %v", err)
	}
	if err := kubelet.Unprepare(running); err != nil {
		t.Errorf("what ran on it ends: %v", err)
	}
	if left := s.rationd.Claims(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestGPUsOfADaemonThatDoesNotAnswerKeepNewClaimsAwayUntilItDoes(t *testing.T) {
	s := newScene(t, fake.GPU(0, 16))
	fast := quick()
	fast.absent = 50 * time.Millisecond
	s.start(fast)
	fake.Until(t, "a device without a taint", func() bool { return s.taint() == "" })
	s.rationd.Stop()
	fake.Until(t, "a taint while rationd is away", func() bool { return s.taint() == inventory.TaintAbsent })
	s.rationd.Start()
	fake.Until(t, "no taint once it is back", func() bool { return s.taint() == "" })
}

func TestAClusterThatDoesNotCountIsOfferedNothing(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.gates.set(false, true)
	kubelet := s.start(quick())
	s.event("Node", node, reasonWithdrawn, "DRAConsumableCapacity is off", "turn the feature gate on")
	if devices := s.published(); len(devices) != 0 || s.gates.storedBare() != 0 {
		t.Fatalf("published: %v", devices)
	}
	if _, err := kubelet.Prepare(s.claim("", of("gpu", gpu, ""))); err == nil || s.rationd.Puts() != 0 {
		t.Errorf("a claim without a count was prepared: %v", err)
	}
	s.gates.set(true, true)
	s.event("Node", node, reasonOffered)
	fake.Until(t, "the GPU, once the gate is on", func() bool { return len(s.published()) == 1 })
}

func TestWhereTheSchedulerDoesNotCountTheSliceIsWithdrawn(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	kubelet := s.start(quick())
	fake.Until(t, "the GPU", func() bool { return len(s.published()) == 1 })
	claim := s.claim("", of("gpu", gpu, ""))
	if _, err := kubelet.Prepare(claim); err == nil {
		t.Fatal("a claim without a count was prepared")
	}
	s.event("Node", node, reasonWithdrawn, "scheduler")
	s.event("Pod", "train-0", reasonDenied, "did not count memory")
	fake.Until(t, "no slice", func() bool { return len(s.published()) == 0 })
}

func TestAnAPIServerThatDropsTaintsIsNotOfferedGPUsInTrouble(t *testing.T) {
	well, ill := fake.GPU(0, 16), fake.GPU(1, 16)
	stranger := gib
	ill.UngovernedBytes = &stranger
	s := newScene(t, well, ill)
	s.gates.set(true, false)
	s.start(quick())
	fake.Until(t, "the GPU that is well, alone", func() bool {
		devices := s.published()
		return len(devices) == 1 && devices[0].Name == inventory.DeviceName(well.UUID)
	})
}

func TestKubeletIsToldOfGPUsThatAreGone(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu, fake.GPU(1, 16))
	kubelet := s.start(quick())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	health := kubelet.Health(ctx)
	next := func() map[string]drahealth.HealthStatus {
		response, err := health.Recv()
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]drahealth.HealthStatus{}
		for _, device := range response.Devices {
			all[device.Device.DeviceName] = device.Health
		}
		return all
	}
	name := inventory.DeviceName(gpu.UUID)
	for next()[name] != drahealth.HealthStatus_HEALTHY {
	}
	s.rationd.Change(func(n *daemon.Node) { n.Devices = n.Devices[1:] })
	for next()[name] != drahealth.HealthStatus_UNHEALTHY {
	}
}

func TestAPolicyIsOneThatTheAPIServerTakes(t *testing.T) {
	for _, room := range []int64{0, 1, 2 << 20, 3 << 20, 4 << 20, 100 << 20, 1 << 30, 5 << 30, 16 << 30, 16<<30 - 1, 80 << 30, 141<<30 + 12345, 1 << 40} {
		p, ok := inventory.PolicyOf(room)
		if !ok {
			if room >= 8<<20 {
				t.Errorf("%d bytes are offered to nobody", room)
			}
			continue
		}
		if p.Max > room || p.Min+p.Step > p.Max || p.Default < p.Min || p.Default > p.Max || p.Step%inventory.Granule != 0 ||
			(p.Max-p.Min)%p.Step != 0 || (p.Default-p.Min)%p.Step != 0 || p.Min%p.Step != 0 {
			t.Errorf("of %d bytes: %+v", room, p)
		}
		if room >= 16<<30 && p.Min <= 512<<20 {
			t.Errorf("of %d bytes the least holds no context: %+v", room, p)
		}
	}
}

func TestAnArchitectureIsTheOneOfTheComputeCapability(t *testing.T) {
	for capability, name := range map[string]string{"": "", "2.1": "", "3.5": "Kepler", "5.2": "Maxwell", "6.1": "Pascal", "7.0": "Volta", "7.5": "Turing", "8.0": "Ampere", "8.6": "Ampere",
		"8.9": "Ada Lovelace", "9.0": "Hopper", "10.0": "Blackwell", "12.1": "Blackwell", "13.0": "", "new": ""} {
		if got := inventory.Architecture(capability); got != name {
			t.Errorf("of %q: %q, not %q", capability, got, name)
		}
	}
}

func TestWhatNobodyToldIsNoAttribute(t *testing.T) {
	offered, _ := inventory.Offer(daemon.Device{UUID: "GPU-x", TotalBytes: 16 * gib}, daemon.Node{}, 0, nil)
	for _, name := range []resourceapi.QualifiedName{"architecture", "cudaComputeCapability", "driverVersion", "enforcedBy", "numaNode", "productName"} {
		if attribute, there := offered.Attributes[name]; there {
			t.Errorf("%s: %+v", name, attribute)
		}
	}
}

func TestNamesOfGPUsAreLabels(t *testing.T) {
	label := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	for _, uuid := range []string{"GPU-5FD4c2a1-aaaa-bbbb-cccc-0123456789ab", "MIG-5fd4c2a1-aaaa-bbbb-cccc-0123456789ab", "MIG-GPU-5fd4/1/0", "x_y", fmt.Sprint("GPU-", string(make([]byte, 100)))} {
		if name := inventory.DeviceName(uuid); !label.MatchString(name) || len(name) > 63 {
			t.Errorf("%q is called %q", uuid, name)
		}
	}
}

package deviceplugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"ration.sh/kubernetes/daemon"
	"ration.sh/kubernetes/internal/exclusive"
	"ration.sh/kubernetes/internal/fake"
	"ration.sh/kubernetes/inventory"
)

const (
	gib    = int64(1) << 30
	memory = "ration.sh/gpu-memory-gib"
)

// scene is a plugin between a fake rationd and kubelet.
type scene struct {
	*testing.T
	rationd *fake.Rationd
	kubelet *fake.DeviceKubelet
	stop    func()
}

func quick() *times {
	return &times{glance: 2 * time.Millisecond, look: 2 * time.Millisecond, absent: time.Hour, tidy: 2 * time.Millisecond, leave: time.Hour, predecessor: 20 * time.Second}
}

// leaving ends claims at once when nobody has them.
func leaving() *times {
	fast := quick()
	fast.leave = 20 * time.Millisecond
	return fast
}

func newScene(t *testing.T, gpus ...daemon.Device) *scene {
	t.Helper()
	return &scene{T: t, rationd: fake.NewRationd(t, gpus...), kubelet: fake.NewDeviceKubelet(t)}
}

// start runs the plugin until the test, or stop(), ends it.
func (s *scene) start(t *times) {
	s.Helper()
	s.stop = fake.Run(s.T, func(ctx context.Context) error {
		return Run(ctx, Options{Socket: s.rationd.Socket, Kubelet: s.kubelet.Folder, GPUKind: "nvidia.com/gpu", times: t})
	})
}

// idsOf are chunks of a GPU as kubelet calls them.
func idsOf(gpu daemon.Device, numbers ...int) (ids []string) {
	for _, number := range numbers {
		ids = append(ids, id(inventory.DeviceName(gpu.UUID), number))
	}
	return ids
}

func (s *scene) allocate(pod, container string, ids ...string) []string {
	s.Helper()
	names, err := s.kubelet.Allocate(pod, container, memory, ids...)
	if err != nil {
		s.Fatal(err)
	}
	return names
}

// claims are rationd's, by name, with their bytes.
func (s *scene) claims() map[string]int64 {
	all := map[string]int64{}
	for _, claim := range s.rationd.Claims() {
		all[claim.Name] = claim.Devices[0].LimitBytes
	}
	return all
}

func (s *scene) healthy(resource string, count int) {
	s.Helper()
	fake.Until(s.T, fmt.Sprintf("%d healthy chunks of %s", count, resource), func() bool { return s.kubelet.Healthy(resource) == count })
}

func TestAGPUIsOfferedInWholeGiBWithoutWhatIsKeptFreeOrPromisedToOthers(t *testing.T) {
	gpu := fake.GPU(0, 16)
	gpu.TotalBytes += gib / 2
	gpu.KeepFreeBytes, gpu.PromisedBytes = gib, 3*gib
	s := newScene(t, gpu)
	s.start(quick())
	s.healthy(memory, 12)
	for id := range s.kubelet.Devices(memory) {
		if len(id) > 63 {
			t.Errorf("%s has %d characters, and kubelet takes 63", id, len(id))
		}
	}
	// What is handed out is kubelet's to count: it does not make the GPU smaller.
	s.allocate("train", "main", idsOf(gpu, 11, 10, 9, 8)...)
	s.rationd.Change(func(n *daemon.Node) { n.Devices[0].PromisedBytes = 6 * gib })
	s.healthy(memory, 9)
	devices := s.kubelet.Devices(memory)
	for _, id := range idsOf(gpu, 0, 1, 2, 3, 4, 8, 9, 10, 11) {
		if devices[id] != api.Healthy {
			t.Errorf("of 9 GiB, of which a pod has chunks 8 to 11, %v are offered", devices)
		}
	}
}

func TestKubeletKnowsNextToWhichProcessorsAGPUIs(t *testing.T) {
	near, unknown := fake.GPU(0, 2), fake.GPU(1, 2)
	near.NUMANodes = []int64{1}
	s := newScene(t, near, unknown)
	s.start(quick())
	s.healthy("ration.sh/gpu-0-memory-gib", 2)
	s.healthy("ration.sh/gpu-1-memory-gib", 2)
	if nodes := s.kubelet.NUMANodes("ration.sh/gpu-0-memory-gib"); !slices.Equal(nodes, []int64{1}) {
		t.Errorf("next to the GPU are %v", nodes)
	}
	if nodes := s.kubelet.NUMANodes("ration.sh/gpu-1-memory-gib"); nodes != nil {
		t.Errorf("kubelet was told %v, and nobody had said so", nodes)
	}
	s.rationd.Change(func(n *daemon.Node) { n.Devices[0].NUMANodes = []int64{0, 1} })
	fake.Until(t, "another answer", func() bool { return slices.Equal(s.kubelet.NUMANodes("ration.sh/gpu-0-memory-gib"), []int64{0, 1}) })
}

func TestEachOfSeveralGPUsIsAResource(t *testing.T) {
	s := newScene(t, fake.GPU(0, 16), fake.GPU(3, 80))
	s.start(quick())
	s.healthy("ration.sh/gpu-0-memory-gib", 16)
	s.healthy("ration.sh/gpu-3-memory-gib", 80)
	if resources := s.kubelet.Resources(); len(resources) != 2 {
		t.Errorf("offered are %v", resources)
	}
}

func TestAPodsChunksAreOneClaim(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.start(quick())
	var before []string
	for range 3 { // a kubelet that did not hear the answer asks again
		names := s.allocate("train", "main", idsOf(gpu, 7, 2, 0, 1)...)
		if len(names) != 1 || (before != nil && names[0] != before[0]) {
			t.Fatalf("the container comes under %v, before under %v", names, before)
		}
		before = names
	}
	kept := s.rationd.Claims()[strings.TrimPrefix(before[0], "ration.sh/claim=")]
	if kept.Name != "device-plugin/0-2,7" || len(kept.Devices) != 1 || kept.Devices[0] != (daemon.ClaimDevice{UUID: gpu.UUID, LimitBytes: 4 * gib, GuaranteeBytes: 4 * gib}) {
		t.Errorf("rationd keeps %+v", kept)
	}
	if s.rationd.Puts() != 1 {
		t.Errorf("rationd was asked %d times", s.rationd.Puts())
	}
}

func TestARealGPUComesWithItsDeviceFiles(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.rationd.Change(func(n *daemon.Node) { n.Simulated = false })
	s.start(quick())
	if names := s.allocate("train", "main", idsOf(gpu, 0)...); !slices.Contains(names, "nvidia.com/gpu="+gpu.UUID) || len(names) != 2 {
		t.Errorf("the container comes with %v", names)
	}
}

func TestChunksThatAreHandedOutAnewAreNoLongerAnEndedPods(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.start(quick())
	s.allocate("first", "main", idsOf(gpu, 0, 1, 2)...)
	s.allocate("second", "main", idsOf(gpu, 8, 9)...)
	s.kubelet.End("first")
	s.allocate("third", "main", idsOf(gpu, 2, 3)...)
	if claims := s.claims(); len(claims) != 2 || claims["device-plugin/2-3"] != 2*gib || claims["device-plugin/8-9"] != 2*gib {
		t.Errorf("rationd keeps %v", claims)
	}
}

// Kubelet gives a pod's containers what those that run before them had, and starts none until all are given.
func TestAContainerThatRunsBeforeAPodsOthersKeepsItsClaim(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.start(quick())
	first := s.allocate("train", "init", idsOf(gpu, 0, 1)...)
	then := s.allocate("train", "main", idsOf(gpu, 0, 1, 2, 3)...)
	if len(then) != 2 || then[0] != first[0] {
		t.Errorf("the first container comes under %v, the other under %v", first, then)
	}
	if claims := s.claims(); len(claims) != 2 || claims["device-plugin/0-1"] != 2*gib || claims["device-plugin/2-3"] != 2*gib {
		t.Errorf("rationd keeps %v", claims)
	}
}

func TestWhatCannotBeGrantedIsSaid(t *testing.T) {
	gpu, other := fake.GPU(0, 16), fake.GPU(1, 16)
	s := newScene(t, gpu, other)
	s.start(quick())
	const resource = "ration.sh/gpu-0-memory-gib"
	s.healthy(resource, 16)
	for name, c := range map[string]struct {
		ids   []string
		words string
	}{
		"two GPUs":             {append(idsOf(gpu, 0, 1), idsOf(other, 0)...), "3 GiB of GPU memory would lie on two GPUs"},
		"a GPU that is gone":   {idsOf(fake.GPU(7, 16), 0), "no longer in this node"},
		"no chunk":             {[]string{"gpu-0"}, `"gpu-0" is no chunk`},
		"another chunk's name": {[]string{idsOf(gpu, 1)[0] + "x"}, "is no chunk"},
		"nothing":              {nil, "no chunk of GPU memory was asked for"},
	} {
		if _, err := s.kubelet.Allocate("train", "main", resource, c.ids...); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: kubelet is told %v, not %q", name, err, c.words)
		}
	}
	if s.rationd.Puts() != 0 {
		t.Errorf("rationd was asked %d times", s.rationd.Puts())
	}
	s.rationd.Break(&daemon.Problem{Status: 409, ID: daemon.NoRoom, Detail: "4 GiB cannot be kept on GPU 0.", Fix: "less"})
	if _, err := s.kubelet.Allocate("train", "main", resource, idsOf(gpu, 0)...); err == nil || !strings.Contains(err.Error(), "4 GiB cannot be kept on GPU 0. [E1304] To do: less") {
		t.Errorf("kubelet is told %v", err)
	}
}

func TestNoPodStartsWithoutADaemonAndItsChunksAreUnhealthyUntilItIsBack(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	fast := quick()
	fast.absent = 50 * time.Millisecond
	s.start(fast)
	s.healthy(memory, 16)
	s.rationd.Stop()
	if _, err := s.kubelet.Allocate("train", "main", memory, idsOf(gpu, 0)...); err == nil || !strings.Contains(err.Error(), "rationd does not answer on "+s.rationd.Socket) {
		t.Errorf("kubelet is told %v", err)
	}
	s.healthy(memory, 0)
	if len(s.kubelet.Devices(memory)) != 16 {
		t.Errorf("of a rationd that is away kubelet knows %v", s.kubelet.Devices(memory))
	}
	s.rationd.Start()
	s.healthy(memory, 16)
	s.allocate("train", "main", idsOf(gpu, 0)...)
}

func TestAGPUThatIsGoneIsUnhealthyUntilItIsBack(t *testing.T) {
	gpu, other := fake.GPU(0, 16), fake.GPU(1, 16)
	s := newScene(t, gpu, other)
	s.start(quick())
	s.healthy("ration.sh/gpu-1-memory-gib", 16)
	s.rationd.Change(func(n *daemon.Node) { n.Devices = []daemon.Device{gpu} })
	s.healthy("ration.sh/gpu-1-memory-gib", 0)
	s.healthy("ration.sh/gpu-0-memory-gib", 16)
	s.rationd.Change(func(n *daemon.Node) { n.Devices = []daemon.Device{gpu, other} })
	s.healthy("ration.sh/gpu-1-memory-gib", 16)
}

func TestOfAGPUThatUngovernedProcessesHoldNothingNewIsOffered(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.start(quick())
	s.allocate("train", "main", idsOf(gpu, 4, 5)...)
	stranger := 2 * gib
	s.rationd.Change(func(n *daemon.Node) { n.Devices[0].UngovernedBytes = &stranger })
	s.healthy(memory, 2)
}

func TestAKubeletThatWasStartedAgainIsToldAgain(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.start(quick())
	s.healthy(memory, 16)
	s.allocate("train", "main", idsOf(gpu, 0, 1)...)
	for _, keeps := range []bool{false, true, false} {
		s.kubelet.Stop()
		s.kubelet.Keeps = keeps
		s.kubelet.Start()
		s.healthy(memory, 16)
	}
	s.allocate("other", "main", idsOf(gpu, 2)...)
	if claims := s.claims(); len(claims) != 2 {
		t.Errorf("rationd keeps %v", claims)
	}
}

func TestAPluginThatWasStartedAgainKnowsWhatItHandedOut(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.start(leaving())
	s.allocate("train", "main", idsOf(gpu, 0, 1)...)
	s.stop()
	s.kubelet.End("train") // while there is no plugin
	s.start(leaving())
	fake.Until(t, "the end of the claim of a pod that is gone", func() bool { return len(s.claims()) == 0 })
}

func TestAClaimEndsOnceNeitherWordOfKubeletsHasItsChunks(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.start(leaving())
	s.rationd.Keep("job-17.node", daemon.Claim{Name: "slurm/job-17", Devices: []daemon.ClaimDevice{{UUID: gpu.UUID}}})                             // somebody else's
	s.rationd.Keep("00000000-0000-4000-8000-000000000001", daemon.Claim{Name: "device-plugin/5", Devices: []daemon.ClaimDevice{{UUID: gpu.UUID}}}) // named alike
	s.allocate("train", "main", idsOf(gpu, 0, 1)...)
	s.allocate("prepare", "init", idsOf(gpu, 2, 3)...) // stands in the checkpoint alone
	s.allocate("passing", "main", idsOf(gpu, 4)...)
	s.kubelet.End("passing")
	fake.Until(t, "the end of the claim of a pod that is gone", func() bool { return len(s.claims()) == 4 })
	told := s.kubelet.Lists()
	fake.Until(t, "a few looks more", func() bool { return s.kubelet.Lists() > told+50 })
	if claims := s.claims(); len(claims) != 4 || claims["device-plugin/0-1"] == 0 || claims["device-plugin/2-3"] == 0 {
		t.Errorf("rationd keeps %v", claims)
	}
	s.kubelet.End("prepare")
	s.kubelet.End("train")
	fake.Until(t, "the end of the others", func() bool { return len(s.claims()) == 2 })
}

func TestPodResourcesAloneKeepAClaim(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.start(quick())
	s.allocate("train", "main", idsOf(gpu, 0)...)
	s.stop()
	s.healthy(memory, 0) // kubelet writes its checkpoint when a plugin goes
	if err := os.WriteFile(s.kubelet.Checkpoint(), []byte(`{"Data": {"PodDeviceEntries": []}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.tidy(&claims{daemon: daemon.New(s.rationd.Socket)})
	if claims := s.claims(); len(claims) != 1 {
		t.Errorf("rationd keeps %v", claims)
	}
}

// tidy looks twice.
func (s *scene) tidy(c *claims) {
	s.Helper()
	for range 2 {
		if _, err := c.tidy(context.Background(), kubelet(s.kubelet.Folder)); err != nil {
			s.Fatal(err)
		}
	}
}

func TestWhatIsHandedOutWhileKubeletIsAskedDoesNotEnd(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	c := &claims{daemon: daemon.New(s.rationd.Socket)}
	grant := func() {
		if _, err := c.grant(context.Background(), gpu, chunks{0}); err != nil {
			t.Error(err)
		}
	}
	grant()
	if err := os.WriteFile(s.kubelet.Checkpoint(), []byte(`{"Data": {"PodDeviceEntries": []}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.kubelet.OnList = grant
	s.tidy(c)
	if claims := s.claims(); len(claims) != 1 {
		t.Errorf("rationd keeps %v", claims)
	}
}

func TestWhatKubeletHasNotWrittenDownYetDoesNotEnd(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.start(quick())
	if _, err := s.kubelet.Ask(memory, idsOf(gpu, 0)...); err != nil {
		t.Fatal(err)
	}
	told := s.kubelet.Lists()
	fake.Until(t, "a few looks", func() bool { return s.kubelet.Lists() > told+50 })
	if claims := s.claims(); len(claims) != 1 {
		t.Errorf("rationd keeps %v", claims)
	}
}

func TestWhatAKubeletNeverWroteDownEnds(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.start(leaving())
	if _, err := s.kubelet.Ask(memory, idsOf(gpu, 0)...); err != nil {
		t.Fatal(err)
	}
	fake.Until(t, "the end of the claim", func() bool { return len(s.claims()) == 0 })
}

func TestNothingEndsWhenKubeletIsSilent(t *testing.T) {
	for name, silence := range map[string]func(*fake.DeviceKubelet) error{
		"kubelet is away":           func(k *fake.DeviceKubelet) error { k.Stop(); return nil },
		"no checkpoint":             func(k *fake.DeviceKubelet) error { return os.Remove(k.Checkpoint()) },
		"a checkpoint that is none": func(k *fake.DeviceKubelet) error { return os.WriteFile(k.Checkpoint(), []byte(`{"Data`), 0o600) },
		"a checkpoint without data": func(k *fake.DeviceKubelet) error { return os.WriteFile(k.Checkpoint(), []byte(`{}`), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			gpu := fake.GPU(0, 16)
			s := newScene(t, gpu)
			s.start(quick())
			s.healthy(memory, 16)
			if _, err := s.kubelet.Ask(memory, idsOf(gpu, 0)...); err != nil {
				t.Fatal(err)
			}
			s.stop()
			s.healthy(memory, 0) // kubelet writes its checkpoint when a plugin goes
			if err := silence(s.kubelet); err != nil {
				t.Fatal(err)
			}
			c := &claims{daemon: daemon.New(s.rationd.Socket)}
			for range 3 {
				if _, err := c.tidy(context.Background(), kubelet(s.kubelet.Folder)); err == nil {
					t.Error("no error")
				}
			}
			if claims := s.claims(); len(claims) != 1 {
				t.Errorf("rationd keeps %v", claims)
			}
		})
	}
}

func TestChunksOfNobodyAreToBePreferred(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	s.start(quick())
	s.allocate("train", "main", idsOf(gpu, 0, 2)...)
	own := func() int { return len(heldOf(s.granted())) }
	fake.Until(t, "the claim", func() bool { return own() == 1 })
	fake.Until(t, "advice that leaves the claim's chunks out", func() bool {
		got := s.kubelet.Prefer(memory, idsOf(gpu, 9, 2, 1, 3, 0, 5), idsOf(gpu, 9), 3)
		return slices.Equal(got, idsOf(gpu, 9, 1, 3))
	})
	if got := s.kubelet.Prefer(memory, idsOf(gpu, 0, 1, 2), nil, 3); len(got) != 3 {
		t.Errorf("where all are needed %v are preferred", got)
	}
}

func (s *scene) granted() []daemon.Granted {
	all, err := daemon.New(s.rationd.Socket).Claims(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	return all
}

func TestOneProgramOfANodeOffersItsGPUs(t *testing.T) {
	s := newScene(t, fake.GPU(0, 16))
	release, err := exclusive.Take(context.Background(), s.kubelet.Folder, "dra", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	brief := quick()
	brief.predecessor = 50 * time.Millisecond
	err = Run(context.Background(), Options{Socket: s.rationd.Socket, Kubelet: s.kubelet.Folder, times: brief})
	if err == nil || !strings.Contains(err.Error(), "offered by ration-kubernetes dra already") {
		t.Errorf("beside the other driver the plugin says %v", err)
	}
	if sockets, _ := filepath.Glob(filepath.Join(s.kubelet.Folder, "device-plugins", "ration*")); len(sockets) != 0 {
		t.Errorf("it serves %v", sockets)
	}
	release()
	s.start(brief)
	s.healthy(memory, 16)
}

func TestChunksAreReadAsTheyAreWritten(t *testing.T) {
	for _, c := range []chunks{{0}, {0, 1, 2}, {0, 2, 4}, {3, 4, 9, 11, 12, 143}} {
		if read, ok := parseChunks(c.String()); !ok || !slices.Equal(read, c) {
			t.Errorf("%v is written %s and read %v", c, c, read)
		}
	}
	for _, text := range []string{"", "x", "1-", "-1", "3-2", "0-99999999", "1,0", "0,1", "01", "0-0"} {
		if read, ok := parseChunks(text); ok {
			t.Errorf("%q is read %v", text, read)
		}
	}
	var every chunks // the longest name that a claim on a GPU of 272 GiB can have
	for number := 0; number < 272; number += 2 {
		every = append(every, number)
	}
	if name := claimOf(daemon.Device{}, every).Name; len(name) > 512 {
		t.Errorf("a name has %d bytes, and rationd takes 512", len(name))
	}
}

func TestIDsOfChunksFit(t *testing.T) {
	for _, uuid := range []string{fake.GPU(0, 1).UUID, "MIG-5fd4c2a1-aaaa-bbbb-cccc-0123456789ab", "MIG-GPU-5fd4c2a1-aaaa-bbbb-cccc-0123456789ab/13/12"} {
		if name := id(inventory.DeviceName(uuid), 1023); len(name) > 63 {
			t.Errorf("%s has %d characters, and kubelet takes 63", name, len(name))
		}
	}
}

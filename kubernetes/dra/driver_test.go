package dra

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientfake "k8s.io/client-go/kubernetes/fake"

	"ration.sh/kubernetes/daemon"
	"ration.sh/kubernetes/internal/exclusive"
	"ration.sh/kubernetes/internal/fake"
	"ration.sh/kubernetes/inventory"
)

const (
	gib  = int64(1) << 30
	node = "n1"
)

// scene is a driver between a fake rationd, kubelet and API server.
type scene struct {
	*testing.T
	rationd *fake.Rationd
	client  *clientfake.Clientset
	folder  string
	stop    func()
	gates   *gates
	claims  int
}

func quick() *times {
	return &times{look: 5 * time.Millisecond, absent: time.Hour, probe: 5 * time.Millisecond, retry: time.Hour, leave: time.Hour, tidy: time.Hour, refresh: time.Hour, predecessor: 20 * time.Second}
}

func newScene(t *testing.T, gpus ...daemon.Device) *scene {
	t.Helper()
	client := clientfake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "node-uid"}})
	return &scene{T: t, rationd: fake.NewRationd(t, gpus...), client: client, folder: fake.Folder(t), gates: guard(client)}
}

// start runs the driver until the test, or stop(), ends it.
func (s *scene) start(t *times) *fake.Kubelet {
	s.Helper()
	s.stop = fake.Run(s.T, func(ctx context.Context) error {
		return Serve(ctx, Options{Node: node, Socket: s.rationd.Socket, Kubelet: s.folder, GPUKind: "nvidia.com/gpu", times: t}, s.client)
	})
	return fake.NewKubelet(s.T, s.folder, inventory.Driver)
}

type result = resourceapi.DeviceRequestAllocationResult

// of is a result as a scheduler writes it.
func of(request string, gpu daemon.Device, memory string) result {
	share := types.UID("share-" + request)
	r := result{Request: request, Driver: inventory.Driver, Pool: node, Device: inventory.DeviceName(gpu.UUID), ShareID: &share}
	if memory != "" {
		r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{inventory.Memory: resource.MustParse(memory)}
	}
	return r
}

// claim is an allocated claim in the cluster, of a pod.
func (s *scene) claim(parameters string, results ...result) *resourceapi.ResourceClaim {
	s.Helper()
	s.claims++
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: fmt.Sprintf("claim-%d", s.claims), UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.claims))}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "train-0", UID: "pod-uid"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: results}}
	if parameters != "" {
		claim.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{Source: resourceapi.AllocationConfigSourceClaim,
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: inventory.Driver, Parameters: runtime.RawExtension{Raw: []byte(parameters)}}}}}
	}
	made, err := s.client.ResourceV1().ResourceClaims("ml").Create(context.Background(), claim, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return made
}

// event waits for an event about an object.
func (s *scene) event(kind, name, reason string, words ...string) {
	s.Helper()
	fake.Until(s.T, fmt.Sprintf("an event %s of %s %s with %q", reason, kind, name, words), func() bool {
		events, err := s.client.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
		if err != nil {
			s.Fatal(err)
		}
	next:
		for _, event := range events.Items {
			if event.InvolvedObject.Kind == kind && event.InvolvedObject.Name == name && event.Reason == reason {
				for _, word := range words {
					if !strings.Contains(event.Message, word) {
						continue next
					}
				}
				return true
			}
		}
		return false
	})
}

func (s *scene) published() []resourceapi.Device {
	s.Helper()
	list, err := s.client.ResourceV1().ResourceSlices().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	var devices []resourceapi.Device
	for _, slice := range list.Items {
		devices = append(devices, slice.Spec.Devices...)
	}
	return devices
}

func TestAClaimBecomesTheDaemonsAndEndsWithIt(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	kubelet := s.start(quick())
	claim := s.claim("", of("gpu", gpu, "4Gi"))
	for range 3 { // kubelet asks again whenever it likes
		devices, err := kubelet.Prepare(claim)
		if err != nil {
			t.Fatal(err)
		}
		if len(devices) != 1 || devices[0].GetShareId() != "share-gpu" || strings.Join(devices[0].CdiDeviceIds, " ") != "ration.sh/claim="+string(claim.UID) {
			t.Fatalf("kubelet is told %v", devices)
		}
	}
	kept := s.rationd.Claims()[string(claim.UID)]
	if len(kept.Devices) != 1 || kept.Devices[0] != (daemon.ClaimDevice{UUID: gpu.UUID, LimitBytes: 4 * gib, GuaranteeBytes: 4 * gib}) || kept.Name != "ml/claim-1" || kept.Labels["pod"] != "train-0" {
		t.Fatalf("rationd keeps %+v", kept)
	}
	for range 2 {
		if err := kubelet.Unprepare(claim); err != nil {
			t.Fatal(err)
		}
	}
	if left := s.rationd.Claims(); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestSeveralResultsAreSummedByGPUAndEachContainerComesUnderTheClaimOnce(t *testing.T) {
	first, second := fake.GPU(0, 16), fake.GPU(1, 16)
	s := newScene(t, first, second)
	s.rationd.Change(func(n *daemon.Node) { n.Simulated = false })
	kubelet := s.start(quick())
	claim := s.claim("", of("a", first, "2Gi"), of("b", second, "1Gi"), of("c", first, "3Gi"))
	devices, err := kubelet.Prepare(claim)
	if err != nil {
		t.Fatal(err)
	}
	kept := s.rationd.Claims()[string(claim.UID)].Devices
	if len(kept) != 2 || kept[0].LimitBytes != 5*gib || kept[0].UUID != first.UUID || kept[1].LimitBytes != gib || kept[1].UUID != second.UUID {
		t.Fatalf("rationd keeps %+v", kept)
	}
	// As kubelet does: what a container that uses one request, or all, is given.
	of := func(request string) (ids []string) {
		for _, device := range devices {
			for _, each := range device.RequestNames {
				if each == request {
					ids = append(ids, device.CdiDeviceIds...)
				}
			}
		}
		return
	}
	for _, request := range []string{"a", "b", "c"} {
		if got := strings.Count(strings.Join(of(request), " "), "ration.sh/claim="); got != 1 {
			t.Errorf("a container with request %s comes under the claim %d times: %v", request, got, of(request))
		}
	}
	var all []string
	for _, device := range devices {
		all = append(all, device.CdiDeviceIds...)
	}
	if got := strings.Count(strings.Join(all, " "), "ration.sh/claim="); got != 1 {
		t.Errorf("a container with the whole claim comes under it %d times: %v", got, all)
	}
	if !strings.Contains(strings.Join(of("b"), " "), "nvidia.com/gpu="+second.UUID) {
		t.Errorf("a real GPU comes without its device files: %v", of("b"))
	}
}

func TestTheDaemonsWordsAreAtTheClaimAndThePod(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	kubelet := s.start(quick())
	if _, err := kubelet.Prepare(s.claim("", of("gpu", gpu, "12Gi"))); err != nil {
		t.Fatal(err)
	}
	claim := s.claim("", of("gpu", gpu, "8Gi"))
	_, err := kubelet.Prepare(claim)
	if err == nil || !strings.Contains(err.Error(), "cannot be kept on GPU 0") || !strings.Contains(err.Error(), "E1304") {
		t.Fatalf("kubelet is told %v", err)
	}
	s.event("ResourceClaim", claim.Name, reasonDenied, "cannot be kept on GPU 0", "E1304", "To do: less")
	s.event("Pod", "train-0", reasonDenied, "cannot be kept on GPU 0")
	if _, left := s.rationd.Claims()[string(claim.UID)]; left {
		t.Error("a rejected claim was left behind")
	}
}

func TestWhatIsWrongWithAClaimIsSaidAndAsksNothingOfTheDaemon(t *testing.T) {
	gpu := fake.GPU(0, 16)
	const head = `{"apiVersion":"ration.sh/v1","kind":"GPUMemory"`
	gone, elsewhere := of("gpu", fake.GPU(7, 16), "4Gi"), of("gpu", gpu, "4Gi")
	elsewhere.Pool = "n2"
	for name, c := range map[string]struct {
		parameters string
		result     result
		words      string
	}{
		"a field that is unknown":      {head + `,"guarante":"1Gi"}`, of("gpu", gpu, "4Gi"), `unknown field "guarante"`},
		"growth":                       {head + `,"growth":true}`, of("gpu", gpu, "4Gi"), "the pod's own environment"},
		"another kind":                 {`{"apiVersion":"ration.sh/v1","kind":"GPU"}`, of("gpu", gpu, "4Gi"), "kind: GPUMemory"},
		"another version":              {`{"apiVersion":"ration.sh/v9","kind":"GPUMemory"}`, of("gpu", gpu, "4Gi"), "apiVersion: ration.sh/v1"},
		"no JSON":                      {`[]`, of("gpu", gpu, "4Gi"), "cannot unmarshal"},
		"a guarantee that is no size":  {head + `,"guarantee":"much"}`, of("gpu", gpu, "4Gi"), `"much" is no amount`},
		"a guarantee that is a number": {head + `,"guarantee":5}`, of("gpu", gpu, "4Gi"), "guarantee"},
		"a negative guarantee":         {head + `,"guarantee":"-1Gi"}`, of("gpu", gpu, "4Gi"), "-1Gi is negative"},
		"a huge guarantee":             {head + `,"guarantee":"9e30"}`, of("gpu", gpu, "4Gi"), "more than any GPU has"},
		"a guarantee above the ask":    {head + `,"guarantee":"5Gi"}`, of("gpu", gpu, "4Gi"), "more than the 4294967296"},
		"a limit below the ask":        {head + `,"limit":"1Gi"}`, of("gpu", gpu, "4Gi"), "less than the 4294967296"},
		"on deny":                      {head + `,"onDeny":"panic"}`, of("gpu", gpu, "4Gi"), "none of fail, wait, wait:30s"},
		"an empty tenant":              {head + `,"tenant":""}`, of("gpu", gpu, "4Gi"), "tenant: is empty"},
		"no memory":                    {"", of("gpu", gpu, "0"), "none was asked for"},
		"negative memory":              {"", of("gpu", gpu, "-4Gi"), "is negative"},
		"more memory than numbers":     {"", of("gpu", gpu, "16Ei"), "more than any GPU has"},
		"a GPU that is gone":           {"", gone, "no longer in the node n1"},
		"another node's GPU":           {"", elsewhere, "of the node n2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, gpu)
			kubelet := s.start(quick())
			claim := s.claim(c.parameters, c.result)
			_, err := kubelet.Prepare(claim)
			if err == nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "ml/claim-1") {
				t.Errorf("kubelet is told %v, not %q", err, c.words)
			}
			if asked := s.rationd.Puts(); asked != 0 {
				t.Errorf("rationd was asked %d times", asked)
			}
			s.event("ResourceClaim", claim.Name, reasonDenied, c.words)
		})
	}
}

func TestWhatAClaimSaysOfGuaranteeLimitTenantAndDenials(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	kubelet := s.start(quick())
	claim := s.claim(`{"apiVersion":"ration.sh/v1","kind":"GPUMemory","guarantee":"1Gi","limit":"6Gi","tenant":"nlp","onDeny":"wait:30s"}`, of("gpu", gpu, "4Gi"))
	if _, err := kubelet.Prepare(claim); err != nil {
		t.Fatal(err)
	}
	kept := s.rationd.Claims()[string(claim.UID)]
	if kept.Devices[0].LimitBytes != 6*gib || kept.Devices[0].GuaranteeBytes != gib || kept.Tenant != "nlp" || kept.OnDeny != "wait:30s" {
		t.Fatalf("rationd keeps %+v", kept)
	}
	now, err := s.client.ResourceV1().ResourceClaims("ml").Get(context.Background(), claim.Name, metav1.GetOptions{})
	if err != nil || len(now.Status.Devices) != 1 || len(now.Status.Devices[0].Conditions) != 1 || now.Status.Devices[0].Data == nil {
		t.Fatalf("the claim's status is %+v, %v", now.Status, err)
	}
	var data grantedData
	if err := json.Unmarshal(now.Status.Devices[0].Data.Raw, &data); err != nil || data != (grantedData{gpu.UUID, 0, 6 * gib, gib, "nlp"}) {
		t.Errorf("the claim's status has the data %s", now.Status.Devices[0].Data.Raw)
	}
	if text := now.Status.Devices[0].Conditions[0].Message; text != "limit 6144 MiB, of which 1024 MiB are guaranteed, tenant nlp" {
		t.Errorf("the claim's condition says %q", text)
	}
	if _, err := kubelet.Prepare(s.claim(`{"apiVersion":"ration.sh/v1","kind":"GPUMemory","tenant":"nobody"}`, of("gpu", gpu, "1Gi"))); err == nil || !strings.Contains(err.Error(), "no tenant nobody") {
		t.Errorf("of a tenant that nobody knows kubelet is told %v", err)
	}
}

func TestNoClaimSaysAnotherTenantThanItsClass(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	kubelet := s.start(quick())
	claim := s.claim(`{"apiVersion":"ration.sh/v1","kind":"GPUMemory","tenant":"vision","onDeny":"fail"}`, of("gpu", gpu, "4Gi"))
	config := claim.Status.Allocation.Devices.Config
	config = append(config, *config[0].DeepCopy())
	config[1].Source = resourceapi.AllocationConfigSourceClass
	config[1].Opaque.Parameters.Raw = []byte(`{"apiVersion":"ration.sh/v1","kind":"GPUMemory","tenant":"nlp","onDeny":"wait"}`)
	update := func() {
		claim.Status.Allocation.Devices.Config = config
		if _, err := s.client.ResourceV1().ResourceClaims("ml").UpdateStatus(context.Background(), claim, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update()
	if _, err := kubelet.Prepare(claim); err == nil || !strings.Contains(err.Error(), `the device class says "nlp"`) {
		t.Fatalf("kubelet is told %v", err)
	}
	config[0].Opaque.Parameters.Raw = []byte(`{"apiVersion":"ration.sh/v1","kind":"GPUMemory","onDeny":"fail"}`)
	update()
	if _, err := kubelet.Prepare(claim); err != nil {
		t.Fatal(err)
	}
	if kept := s.rationd.Claims()[string(claim.UID)]; kept.Tenant != "nlp" || kept.OnDeny != "fail" {
		t.Errorf("rationd keeps %+v", kept)
	}
}

func TestAdminAccessIsGivenNoMemory(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	kubelet := s.start(quick())
	admin, yes := of("look", gpu, ""), true
	admin.AdminAccess = &yes
	claim := s.claim("", admin)
	devices, err := kubelet.Prepare(claim)
	if err != nil || len(devices) != 1 || len(devices[0].CdiDeviceIds) != 0 || s.rationd.Puts() != 0 {
		t.Fatalf("kubelet is told %v, %v", devices, err)
	}
	if err := kubelet.Unprepare(claim); err != nil {
		t.Fatal(err)
	}
}

func TestPodsComeToAClaimThatTheyShare(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	kubelet := s.start(quick())
	claim := s.claim("", of("gpu", gpu, "4Gi"))
	if _, err := kubelet.Prepare(claim); err != nil {
		t.Fatal(err)
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "train-1", UID: "another"})
	if _, err := s.client.ResourceV1().ResourceClaims("ml").UpdateStatus(context.Background(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kubelet.Prepare(claim); err != nil {
		t.Fatalf("with a second pod: %v", err)
	}
}

func TestAnAbsentDaemonIsSaidAndWhatWasPreparedOutlivesRestarts(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	kubelet := s.start(quick())
	first := s.claim("", of("gpu", gpu, "4Gi"))
	if _, err := kubelet.Prepare(first); err != nil {
		t.Fatal(err)
	}
	s.rationd.Stop()
	second := s.claim("", of("gpu", gpu, "4Gi"))
	if _, err := kubelet.Prepare(second); err == nil || !strings.Contains(err.Error(), "rationd does not answer on "+s.rationd.Socket) {
		t.Fatalf("kubelet is told %v", err)
	}
	s.event("Pod", "train-0", reasonDenied, "rationd does not answer")
	if err := kubelet.Unprepare(first); err == nil {
		t.Fatal("a claim ended without rationd")
	}
	s.stop() // the driver is restarted while rationd is away
	kubelet = s.start(quick())
	if err := kubelet.Unprepare(first); err == nil {
		t.Fatal("a claim ended without rationd")
	}
	s.rationd.Start()
	if _, err := kubelet.Prepare(second); err != nil {
		t.Fatal(err)
	}
	if _, err := kubelet.Prepare(first); err != nil {
		t.Fatal(err)
	}
	if len(s.rationd.Claims()) != 2 {
		t.Fatalf("rationd keeps %v", s.rationd.Claims())
	}
	for _, claim := range []*resourceapi.ResourceClaim{first, second} {
		if err := kubelet.Unprepare(claim); err != nil {
			t.Fatal(err)
		}
	}
	if left := s.rationd.Claims(); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestClaimsThatTheClusterNoLongerHasEnd(t *testing.T) {
	gpu := fake.GPU(0, 16)
	s := newScene(t, gpu)
	fast := quick()
	fast.tidy, fast.leave = time.Millisecond, 20*time.Millisecond
	kubelet := s.start(fast)
	gone, kept := s.claim("", of("gpu", gpu, "4Gi")), s.claim("", of("gpu", gpu, "2Gi"))
	for _, claim := range []*resourceapi.ResourceClaim{gone, kept} {
		if _, err := kubelet.Prepare(claim); err != nil {
			t.Fatal(err)
		}
	}
	s.rationd.Keep("job-17.node", daemon.Claim{Name: "slurm/job-17"}) // somebody else's
	if err := s.client.ResourceV1().ResourceClaims("ml").Delete(context.Background(), gone.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	fake.Until(t, "the end of a claim that is gone", func() bool { return len(s.rationd.Claims()) == 2 })
	if _, found := s.rationd.Claims()[string(kept.UID)]; !found {
		t.Error("a claim that is there was ended")
	}
}

func TestOneProgramOfANodeOffersItsGPUs(t *testing.T) {
	s := newScene(t, fake.GPU(0, 16))
	release, err := exclusive.Take(context.Background(), s.folder, "device-plugin", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	brief := quick()
	brief.predecessor = 50 * time.Millisecond
	err = Serve(context.Background(), Options{Node: node, Socket: s.rationd.Socket, Kubelet: s.folder, times: brief}, s.client)
	if err == nil || !strings.Contains(err.Error(), "offered by ration-kubernetes device-plugin already") {
		t.Errorf("beside the other driver this one says %v", err)
	}
	if devices := s.published(); len(devices) != 0 {
		t.Errorf("it offers %v", devices)
	}
}

package dra

import (
	"context"
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
	claims  int
}

func quick() *times {
	return &times{look: 5 * time.Millisecond, absent: time.Hour, probe: 5 * time.Millisecond, retry: time.Hour, leave: time.Hour, tidy: time.Hour, refresh: time.Hour}
}

func newScene(t *testing.T, gpus ...daemon.Device) *scene {
	t.Helper()
	client := clientfake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "node-uid"}})
	return &scene{T: t, rationd: fake.NewRationd(t, gpus...), client: client, folder: fake.Folder(t)}
}

// start runs the driver until the test, or stop(), ends it.
func (s *scene) start(t *times) *fake.Kubelet {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, Options{Node: node, Socket: s.rationd.Socket, Kubelet: s.folder, GPUKind: "nvidia.com/gpu", times: t}, s.client)
	}()
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("the driver ended: %v", err)
		}
	}
	s.Cleanup(s.stop)
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

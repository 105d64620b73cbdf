package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// DeviceKubelet is a kubelet as device plugins meet it: they register on its socket, it follows their devices and asks for what pods are to get. What pods
// have is told by its pod resources, and stands in its checkpoint, which it writes when a plugin tells devices and when it has asked for some.
type DeviceKubelet struct {
	Folder string
	Keeps  bool   // the sockets of plugins when it starts: it did not get as far as to remove them
	OnList func() // is called while somebody waits for its pod resources; set before anybody does

	t *testing.T
	deviceplugin.UnimplementedRegistrationServer
	podresources.UnimplementedPodResourcesListerServer

	mutex   sync.Mutex
	servers []*grpc.Server
	stop    context.CancelFunc // of what follows plugins
	running context.Context
	plugins map[string]deviceplugin.DevicePluginClient
	devices map[string]map[string]string // health by id, by resource
	near    map[string][]int64           // NUMA nodes of all of its devices, by resource
	lists   int
	has     []podDevices
}

// podDevices is one entry of the checkpoint.
type podDevices struct {
	PodUID, ContainerName, ResourceName string
	DeviceIDs                           map[string][]string

	ended, initial bool
}

// NewDeviceKubelet starts one in a folder of its own. It is stopped when the test ends.
func NewDeviceKubelet(t *testing.T) *DeviceKubelet {
	t.Helper()
	k := &DeviceKubelet{Folder: Folder(t), t: t}
	for _, folder := range []string{k.plugin(), filepath.Join(k.Folder, "pod-resources")} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	k.Start()
	t.Cleanup(k.Stop)
	return k
}

func (k *DeviceKubelet) plugin() string { return filepath.Join(k.Folder, "device-plugins") }

// Start listens, and removes the sockets of plugins as kubelet does. What pods have is in its checkpoint, and so is known again.
func (k *DeviceKubelet) Start() {
	k.t.Helper()
	entries, err := os.ReadDir(k.plugin())
	if err != nil {
		k.t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Type() == os.ModeSocket && !k.Keeps {
			os.Remove(filepath.Join(k.plugin(), entry.Name()))
		}
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.running, k.stop = context.WithCancel(context.Background())
	k.plugins, k.devices, k.near = map[string]deviceplugin.DevicePluginClient{}, map[string]map[string]string{}, map[string][]int64{}
	k.servers = nil
	k.serve(filepath.Join(k.plugin(), "kubelet.sock"), func(server *grpc.Server) { deviceplugin.RegisterRegistrationServer(server, k) })
	k.serve(filepath.Join(k.Folder, "pod-resources/kubelet.sock"), func(server *grpc.Server) { podresources.RegisterPodResourcesListerServer(server, k) })
}

func (k *DeviceKubelet) serve(socket string, register func(*grpc.Server)) {
	os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		k.t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // a kubelet that is killed leaves its sockets
	server := grpc.NewServer()
	register(server)
	k.servers = append(k.servers, server)
	go server.Serve(listener)
}

// Stop is what a kill does.
func (k *DeviceKubelet) Stop() {
	k.mutex.Lock()
	servers := k.servers
	k.stop()
	k.mutex.Unlock()
	for _, server := range servers {
		server.Stop()
	}
}

// Register takes a plugin up, and follows its devices.
func (k *DeviceKubelet) Register(_ context.Context, request *deviceplugin.RegisterRequest) (*deviceplugin.Empty, error) {
	if request.Version != deviceplugin.Version || filepath.Base(request.Endpoint) != request.Endpoint {
		return nil, fmt.Errorf("not registered: %v", request)
	}
	plugin := deviceplugin.NewDevicePluginClient(Dial(k.t, filepath.Join(k.plugin(), request.Endpoint)))
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.plugins[request.ResourceName] = plugin
	go k.follow(k.running, request.ResourceName, plugin)
	return &deviceplugin.Empty{}, nil
}

func (k *DeviceKubelet) follow(ctx context.Context, resource string, plugin deviceplugin.DevicePluginClient) {
	stream, err := plugin.ListAndWatch(ctx, &deviceplugin.Empty{})
	if err != nil {
		return
	}
	for {
		response, err := stream.Recv()
		k.mutex.Lock()
		if ctx.Err() != nil || k.plugins[resource] != plugin {
			k.mutex.Unlock()
			return
		}
		all := map[string]string{}
		if err == nil {
			near := map[int64]int{}
			for _, device := range response.Devices {
				all[device.ID] = device.Health
				for _, node := range device.GetTopology().GetNodes() {
					near[node.ID]++
				}
			}
			k.near[resource] = nil
			for node, devices := range near {
				if devices == len(all) {
					k.near[resource] = append(k.near[resource], node)
				}
			}
			slices.Sort(k.near[resource])
		} else { // it is gone: what it had is not healthy
			for id := range k.devices[resource] {
				all[id] = deviceplugin.Unhealthy
			}
		}
		k.devices[resource] = all
		k.write()
		k.mutex.Unlock()
		if err != nil {
			return
		}
	}
}

// write is the checkpoint: of pods that have ended, too, until somebody lists the pods' resources. The mutex is held.
func (k *DeviceKubelet) write() {
	entries := k.has
	if entries == nil {
		entries = []podDevices{}
	}
	text, err := json.Marshal(map[string]any{"Data": map[string]any{"PodDeviceEntries": entries, "RegisteredDevices": map[string][]string{}}, "Checksum": 1})
	if err == nil {
		err = os.WriteFile(k.Checkpoint()+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(k.Checkpoint()+".new", k.Checkpoint())
	}
	if err != nil {
		panic(err)
	}
}

// Checkpoint is the file in which kubelet keeps what pods have.
func (k *DeviceKubelet) Checkpoint() string {
	return filepath.Join(k.plugin(), "kubelet_internal_checkpoint")
}

// List tells what containers of pods that have not ended have, and forgets what others had. Of containers that run before a pod's others it says nothing.
func (k *DeviceKubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	if k.OnList != nil {
		k.OnList()
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.lists++
	k.has = slices.DeleteFunc(k.has, func(entry podDevices) bool { return entry.ended })
	response := &podresources.ListPodResourcesResponse{}
	for _, entry := range k.has {
		pod := &podresources.PodResources{Name: entry.PodUID, Namespace: "ml"}
		if !entry.initial {
			pod.Containers = []*podresources.ContainerResources{{Name: entry.ContainerName,
				Devices: []*podresources.ContainerDevices{{ResourceName: entry.ResourceName, DeviceIds: entry.DeviceIDs["-1"]}}}}
		}
		response.PodResources = append(response.PodResources, pod)
	}
	return response, nil
}

// Lists is how often its pod resources were asked for.
func (k *DeviceKubelet) Lists() int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.lists
}

// Devices are a resource's, each with its health.
func (k *DeviceKubelet) Devices(resource string) map[string]string {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.devices[resource]
}

// Resources are what is registered.
func (k *DeviceKubelet) Resources() (all []string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for resource := range k.plugins {
		all = append(all, resource)
	}
	slices.Sort(all)
	return all
}

// NUMANodes are those next to every one of a resource's devices, as the plugin said last.
func (k *DeviceKubelet) NUMANodes(resource string) []int64 {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.near[resource]
}

// Healthy is how many of a resource's devices are.
func (k *DeviceKubelet) Healthy(resource string) (count int) {
	for _, health := range k.Devices(resource) {
		if health == deviceplugin.Healthy {
			count++
		}
	}
	return count
}

func (k *DeviceKubelet) of(resource string) deviceplugin.DevicePluginClient {
	k.t.Helper()
	Until(k.t, "a plugin of "+resource, func() bool {
		k.mutex.Lock()
		defer k.mutex.Unlock()
		return k.plugins[resource] != nil
	})
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.plugins[resource]
}

// Prefer asks a plugin which of the devices it would rather hand out.
func (k *DeviceKubelet) Prefer(resource string, available, must []string, size int) []string {
	k.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	response, err := k.of(resource).GetPreferredAllocation(ctx, &deviceplugin.PreferredAllocationRequest{ContainerRequests: []*deviceplugin.ContainerPreferredAllocationRequest{
		{AvailableDeviceIDs: available, MustIncludeDeviceIDs: must, AllocationSize: int32(size)}}})
	if err != nil {
		k.t.Fatal(err)
	}
	return response.ContainerResponses[0].DeviceIDs
}

// Ask asks a plugin for devices, and forgets the answer, as a kubelet that is killed before it has written it down.
func (k *DeviceKubelet) Ask(resource string, ids ...string) ([]string, error) {
	k.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	response, err := k.of(resource).Allocate(ctx, &deviceplugin.AllocateRequest{ContainerRequests: []*deviceplugin.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, device := range response.ContainerResponses[0].CdiDevices {
		names = append(names, device.Name)
	}
	return names, nil
}

// Allocate gives a pod's container devices; the answer is the CDI devices that it comes with.
func (k *DeviceKubelet) Allocate(pod, container, resource string, ids ...string) ([]string, error) {
	k.t.Helper()
	names, err := k.Ask(resource, ids...)
	if err != nil {
		return nil, err
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.has = slices.DeleteFunc(k.has, func(entry podDevices) bool { return entry.ended })
	k.has = append(k.has, podDevices{PodUID: pod, ContainerName: container, ResourceName: resource, DeviceIDs: map[string][]string{"-1": ids}, initial: container == "init"})
	k.write()
	return names, nil
}

// End ends a pod.
func (k *DeviceKubelet) End(pod string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for i := range k.has {
		k.has[i].ended = k.has[i].ended || k.has[i].PodUID == pod
	}
}

package deviceplugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// resource is the memory of one GPU as kubelet counts it, served on a socket in kubelet's folder.
type resource struct {
	api.UnimplementedDevicePluginServer

	name   string
	plugin *plugin
	socket string
	server *grpc.Server
	known  bool // to kubelet; of the plugin's loop

	mutex   sync.Mutex
	offered offer
	news    chan struct{} // closed when kubelet is to be told
}

// offer is what kubelet should know of a resource.
type offer struct {
	chunks map[string]string // health by id
	numa   []int64           // nodes whose processors are next to the GPU; none: nobody says
}

func (o offer) equal(other offer) bool {
	return maps.Equal(o.chunks, other.chunks) && slices.Equal(o.numa, other.numa)
}

// topology is nil where nobody says: then any processors are as good.
func (o offer) topology() *api.TopologyInfo {
	if len(o.numa) == 0 {
		return nil
	}
	near := &api.TopologyInfo{}
	for _, node := range o.numa {
		near.Nodes = append(near.Nodes, &api.NUMANode{ID: node})
	}
	return near
}

// listen serves a resource on a socket that is not there yet, or no longer.
func listen(p *plugin, name string) (*resource, error) {
	r := &resource{name: name, plugin: p, socket: filepath.Join(p.kubelet.plugins(), strings.ReplaceAll(name, "/", "_")+".sock"), server: grpc.NewServer(), news: make(chan struct{})}
	if err := os.Remove(r.socket); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	listener, err := net.Listen("unix", r.socket)
	if err != nil {
		return nil, err
	}
	api.RegisterDevicePluginServer(r.server, r)
	go r.server.Serve(listener)
	return r, nil
}

func (r *resource) stop() { r.server.Stop() }

// lost says whether its socket is no longer there: a kubelet that starts removes all.
func (r *resource) lost() bool {
	_, err := os.Lstat(r.socket)
	return os.IsNotExist(err)
}

func (r *resource) register(ctx context.Context) error {
	return r.plugin.kubelet.register(ctx, &api.RegisterRequest{Version: api.Version, Endpoint: filepath.Base(r.socket), ResourceName: r.name, Options: options()})
}

func options() *api.DevicePluginOptions {
	return &api.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}

// set has kubelet told where something has changed.
func (r *resource) set(offered offer) {
	r.mutex.Lock()
	same := offered.equal(r.offered)
	r.offered = offered
	r.mutex.Unlock()
	if !same {
		r.tell()
	}
}

// tell has kubelet told again, which writes its checkpoint anew.
func (r *resource) tell() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	close(r.news)
	r.news = make(chan struct{})
}

// GetDevicePluginOptions says which of the other calls are served.
func (r *resource) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return options(), nil
}

// ListAndWatch tells the chunks, and again when they change.
func (r *resource) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	for {
		r.mutex.Lock()
		news, offered := r.news, r.offered
		r.mutex.Unlock()
		response := &api.ListAndWatchResponse{}
		near := offered.topology()
		for _, id := range slices.Sorted(maps.Keys(offered.chunks)) {
			response.Devices = append(response.Devices, &api.Device{ID: id, Health: offered.chunks[id], Topology: near})
		}
		if err := stream.Send(response); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-news:
		}
	}
}

// GetPreferredAllocation advises: chunks that no claim has, and of those the first. Kubelet asks only where it has a choice, and need not follow.
func (r *resource) GetPreferredAllocation(_ context.Context, request *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	told, _ := r.plugin.sight.Latest()
	own := heldOf(told.Claims)
	response := &api.PreferredAllocationResponse{}
	for _, each := range request.ContainerRequests {
		gpu, numbers, err := parseIDs(each.AvailableDeviceIDs)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		held := heldOn(own, gpu)
		rank := func(number int) int {
			switch {
			case slices.Contains(each.MustIncludeDeviceIDs, id(gpu, number)):
				return 0
			case held[number]:
				return 2
			}
			return 1
		}
		slices.SortStableFunc(numbers, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
		preferred := &api.ContainerPreferredAllocationResponse{}
		for _, number := range numbers[:min(len(numbers), int(each.AllocationSize))] {
			preferred.DeviceIDs = append(preferred.DeviceIDs, id(gpu, number))
		}
		response.ContainerResponses = append(response.ContainerResponses, preferred)
	}
	return response, nil
}

// Allocate makes a claim of rationd for each container. An error is shown at the pod, which then does not start.
func (r *resource) Allocate(ctx context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, each := range request.ContainerRequests {
		names, err := r.plugin.allocate(ctx, each.DevicesIds)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Memory was not granted", "resource", r.name, "chunks", len(each.DevicesIds))
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		container := &api.ContainerAllocateResponse{}
		for _, name := range names {
			container.CdiDevices = append(container.CdiDevices, &api.CDIDevice{Name: name})
		}
		response.ContainerResponses = append(response.ContainerResponses, container)
	}
	return response, nil
}

// allocate is the names of the devices by which a container comes under a limit of these chunks, and to its GPU.
func (p *plugin) allocate(ctx context.Context, ids []string) ([]string, error) {
	gpu, numbers, err := parseIDs(ids)
	if err != nil {
		return nil, err
	}
	told, _ := p.sight.Latest()
	device, found := told.Find(gpu)
	if !found {
		if told.Node, err = p.claims.daemon.Node(ctx); err != nil {
			return nil, err
		}
		if device, found = told.Find(gpu); !found {
			return nil, fmt.Errorf("the GPU %s is no longer in this node", gpu)
		}
	}
	names, err := p.claims.grant(ctx, device, numbers)
	if kind := told.KindOf(p.gpuKind); err == nil && kind != "" {
		names = append(names, kind+"="+device.UUID)
	}
	return names, err
}

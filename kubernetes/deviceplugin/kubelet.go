package deviceplugin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// kubelet is its folder.
type kubelet string

func (k kubelet) plugins() string { return filepath.Join(string(k), "device-plugins") }
func (k kubelet) socket() string  { return filepath.Join(k.plugins(), "kubelet.sock") }

// answer is how long kubelet has for one.
const answer = 10 * time.Second

// with dials one of kubelet's sockets.
func with(ctx context.Context, socket string, ask func(context.Context, *grpc.ClientConn) error) error {
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, stop := context.WithTimeout(ctx, answer)
	defer stop()
	if err := ask(ctx, connection); err != nil {
		return fmt.Errorf("kubelet does not answer on %s: %w", socket, err)
	}
	return nil
}

// register tells kubelet of a plugin that serves a socket in its folder.
func (k kubelet) register(ctx context.Context, request *api.RegisterRequest) error {
	return with(ctx, k.socket(), func(ctx context.Context, connection *grpc.ClientConn) error {
		_, err := api.NewRegistrationClient(connection).Register(ctx, request)
		return err
	})
}

// inUse is which devices kubelet has handed out, by both of its words. Pod resources do not tell of containers that run before a pod's others; the checkpoint
// still has pods that ended after it was written. An error: kubelet did not say.
func (k kubelet) inUse(ctx context.Context) (pods, checkpoint map[string]bool, err error) {
	pods, checkpoint = map[string]bool{}, map[string]bool{}
	err = with(ctx, filepath.Join(string(k), "pod-resources/kubelet.sock"), func(ctx context.Context, connection *grpc.ClientConn) error {
		response, err := podresources.NewPodResourcesListerClient(connection).List(ctx, &podresources.ListPodResourcesRequest{})
		for _, pod := range response.GetPodResources() {
			for _, container := range pod.GetContainers() {
				for _, devices := range container.GetDevices() {
					for _, id := range devices.GetDeviceIds() {
						pods[id] = true
					}
				}
			}
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	var kept struct {
		Data *struct {
			PodDeviceEntries []struct{ DeviceIDs map[string][]string }
		}
	}
	path := filepath.Join(k.plugins(), "kubelet_internal_checkpoint")
	text, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(text, &kept); err == nil && kept.Data == nil {
			err = fmt.Errorf("it has no Data")
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("kubelet's checkpoint %s: %w", path, err)
	}
	for _, entry := range kept.Data.PodDeviceEntries {
		for _, ids := range entry.DeviceIDs {
			for _, id := range ids {
				checkpoint[id] = true
			}
		}
	}
	return pods, checkpoint, nil
}

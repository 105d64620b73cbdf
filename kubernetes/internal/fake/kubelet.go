package fake

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Folder is a short folder, in which sockets fit, that is removed when the test ends.
func Folder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// Dial opens a Unix socket for gRPC.
func Dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

// Kubelet asks a DRA driver as kubelet does: it finds the registration socket in its folder, and dials what that tells.
type Kubelet struct {
	t      *testing.T
	Folder string
	plugin dra.DRAPluginClient
	health drahealth.DRAResourceHealthClient
	Info   *registration.PluginInfo
}

// NewKubelet waits for the driver's registration.
func NewKubelet(t *testing.T, folder, driver string) *Kubelet {
	t.Helper()
	socket := filepath.Join(folder, "plugins_registry", driver+"-reg.sock")
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	client := registration.NewRegistrationClient(Dial(t, socket))
	info, err := client.GetInfo(ctx, &registration.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		t.Fatal(err)
	}
	connection := Dial(t, info.Endpoint)
	return &Kubelet{t, folder, dra.NewDRAPluginClient(connection), drahealth.NewDRAResourceHealthClient(connection), info}
}

func words(claim *resourceapi.ResourceClaim) *dra.Claim {
	return &dra.Claim{Namespace: claim.Namespace, Name: claim.Name, Uid: string(claim.UID)}
}

// Prepare asks for one claim; the error is the claim's, or the call's.
func (k *Kubelet) Prepare(claim *resourceapi.ResourceClaim) ([]*dra.Device, error) {
	k.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	response, err := k.plugin.NodePrepareResources(ctx, &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{words(claim)}})
	if err != nil {
		return nil, err
	}
	result, found := response.Claims[string(claim.UID)]
	if !found {
		k.t.Fatalf("the answer leaves %s out", claim.UID)
	}
	if result.Error != "" {
		return nil, fmt.Errorf("%s", result.Error)
	}
	return result.Devices, nil
}

// Unprepare ends one claim.
func (k *Kubelet) Unprepare(claim *resourceapi.ResourceClaim) error {
	k.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	response, err := k.plugin.NodeUnprepareResources(ctx, &dra.NodeUnprepareResourcesRequest{Claims: []*dra.Claim{words(claim)}})
	if err != nil {
		return err
	}
	result, found := response.Claims[string(claim.UID)]
	if !found {
		k.t.Fatalf("the answer leaves %s out", claim.UID)
	}
	if result.Error != "" {
		return fmt.Errorf("%s", result.Error)
	}
	return nil
}

// Health follows what the driver says of its GPUs.
func (k *Kubelet) Health(ctx context.Context) drahealth.DRAResourceHealth_NodeWatchResourcesClient {
	k.t.Helper()
	stream, err := k.health.NodeWatchResources(ctx, &drahealth.NodeWatchResourcesRequest{})
	if err != nil {
		k.t.Fatal(err)
	}
	return stream
}

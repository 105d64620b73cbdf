package dra

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// gates are those of the API server in front of a fake client. It drops from slices what they do not allow, and stores nothing that is only tried.
type gates struct {
	mutex          sync.Mutex
	counts, taints bool
	stored         int // slices that were stored with a device without counts
}

func (g *gates) set(counts, taints bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.counts, g.taints = counts, taints
}

func (g *gates) storedBare() int {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.stored
}

func guard(client *clientfake.Clientset) *gates {
	g := &gates{counts: true, taints: true}
	drop := func(object runtime.Object) *resourceapi.ResourceSlice {
		slice := object.(*resourceapi.ResourceSlice)
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if !g.counts {
				device.AllowMultipleAllocations = nil
				for name, capacity := range device.Capacity {
					capacity.RequestPolicy = nil
					device.Capacity[name] = capacity
				}
			}
			if !g.taints {
				device.Taints = nil
			}
		}
		return slice
	}
	client.PrependReactor("create", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		g.mutex.Lock()
		defer g.mutex.Unlock()
		create := action.(clienttesting.CreateActionImpl)
		slice := drop(create.Object)
		if len(create.CreateOptions.DryRun) > 0 {
			return true, slice, nil
		}
		if !g.counts {
			g.stored++
		}
		return false, nil, nil
	})
	client.PrependReactor("update", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		g.mutex.Lock()
		defer g.mutex.Unlock()
		drop(action.(clienttesting.UpdateActionImpl).Object)
		return false, nil, nil
	})
	return g
}

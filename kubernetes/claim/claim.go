// Package claim turns a ResourceClaim that the scheduler has placed into a claim of rationd. It decides nothing: what Kubernetes counted is the limit.
package claim

import (
	"errors"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"ration.sh/kubernetes/daemon"
	"ration.sh/kubernetes/inventory"
)

// ErrNotCounted: the scheduler gave a GPU without saying how much of it. It does so where the feature gate DRAConsumableCapacity is off.
var ErrNotCounted = errors.New("the cluster did not count memory: its scheduler or API server runs without the feature gate DRAConsumableCapacity")

// Part is one result of this driver in a claim's allocation.
type Part struct {
	resourceapi.DeviceRequestAllocationResult
	Device         daemon.Device
	LimitBytes     int64
	GuaranteeBytes int64
	// Admin: it was asked for with adminAccess, to look at the GPU beside whoever has it. It is given no memory, and so no device of rationd's.
	Admin bool
}

// Translated is a claim as rationd takes it, and what it was made of.
type Translated struct {
	ID    string // the claim's UID
	Name  string // namespace/claim
	Words daemon.Claim
	Parts []Part // in the order of the allocation
}

// Empty says that nothing in it asks for memory, and so nothing is asked of rationd.
func (t Translated) Empty() bool { return len(t.Words.Devices) == 0 }

// Translate reads the allocation of a claim. `find` knows the node's GPUs by their device names, `pool` is the node's pool. Everything that is wrong with
// the claim is an error with words for its owner; ErrNotCounted is the cluster's fault.
func Translate(claim *resourceapi.ResourceClaim, pool string, find func(device string) (daemon.Device, bool)) (Translated, error) {
	t := Translated{ID: string(claim.UID), Name: claim.Namespace + "/" + claim.Name}
	t.Words = daemon.Claim{Name: t.Name, Labels: map[string]string{"namespace": claim.Namespace, "claim": claim.Name}}
	if pods := claim.Status.ReservedFor; len(pods) == 1 && pods[0].Resource == "pods" {
		t.Words.Labels["pod"] = pods[0].Name
	}
	if claim.Status.Allocation == nil {
		return t, fmt.Errorf("claim %s is not allocated", t.Name)
	}
	var said configuration // by the parts before, of what a claim has only one
	place := map[string]int{}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != inventory.Driver {
			continue
		}
		part, own, err := partOf(claim, result, pool, find)
		if err != nil {
			return t, fmt.Errorf("claim %s, request %s: %w", t.Name, result.Request, err)
		}
		t.Parts = append(t.Parts, part)
		if part.Admin {
			continue
		}
		if said, err = agree(said, own); err != nil {
			return t, fmt.Errorf("claim %s, request %s: %w", t.Name, result.Request, err)
		}
		at, known := place[part.Device.UUID]
		if !known {
			at = len(t.Words.Devices)
			place[part.Device.UUID] = at
			t.Words.Devices = append(t.Words.Devices, daemon.ClaimDevice{UUID: part.Device.UUID})
		}
		t.Words.Devices[at].LimitBytes += part.LimitBytes
		t.Words.Devices[at].GuaranteeBytes += part.GuaranteeBytes
	}
	if len(t.Parts) == 0 {
		return t, fmt.Errorf("claim %s has nothing of %s", t.Name, inventory.Driver)
	}
	if said.Tenant != nil {
		t.Words.Tenant = *said.Tenant
	}
	if said.OnDeny != nil {
		t.Words.OnDeny = *said.OnDeny
	}
	return t, nil
}

// partOf reads one result, and what configuration holds for it.
func partOf(claim *resourceapi.ResourceClaim, result resourceapi.DeviceRequestAllocationResult, pool string, find func(string) (daemon.Device, bool)) (Part, configuration, error) {
	part := Part{DeviceRequestAllocationResult: result, Admin: result.AdminAccess != nil && *result.AdminAccess}
	if result.Pool != pool {
		return part, configuration{}, fmt.Errorf("its GPU is of the node %s, and this is %s", result.Pool, pool)
	}
	device, found := find(result.Device)
	if !found {
		return part, configuration{}, fmt.Errorf("the GPU %s is no longer in the node %s. To do: delete the pod and its claim, so that both are placed anew", result.Device, pool)
	}
	part.Device = device
	if part.Admin {
		return part, configuration{}, nil
	}
	counted, ok := result.ConsumedCapacity[inventory.Memory]
	if !ok {
		return part, configuration{}, ErrNotCounted
	}
	asked, err := bytesOfQuantity("memory", counted)
	if err != nil {
		return part, configuration{}, err
	}
	if asked == 0 {
		return part, configuration{}, errors.New("memory: none was asked for")
	}
	own, err := configurationOf(claim.Status.Allocation.Devices.Config, result.Request)
	if err != nil {
		return part, configuration{}, err
	}
	part.LimitBytes, part.GuaranteeBytes = asked, asked
	if own.Limit != nil {
		if *own.Limit < asked {
			return part, configuration{}, fmt.Errorf("limit: %d bytes are less than the %d that were asked for", *own.Limit, asked)
		}
		part.LimitBytes = *own.Limit
	}
	if own.Guarantee != nil {
		// More than what the scheduler counted would be promised twice.
		if *own.Guarantee > asked {
			return part, configuration{}, fmt.Errorf("guarantee: %d bytes are more than the %d that were asked for. To do: ask for as much memory as is to be guaranteed, and set limit", *own.Guarantee, asked)
		}
		part.GuaranteeBytes = *own.Guarantee
	}
	return part, own, nil
}

// agree is what both say of the things that a claim has only once.
func agree(before, now configuration) (configuration, error) {
	for _, each := range []struct {
		what   string
		before **string
		now    *string
	}{{"tenant", &before.Tenant, now.Tenant}, {"onDeny", &before.OnDeny, now.OnDeny}} {
		if each.now == nil {
			continue
		}
		if *each.before != nil && **each.before != *each.now {
			return before, fmt.Errorf("%s: %q, and another request of the claim says %q. To do: one claim for each", each.what, *each.now, **each.before)
		}
		*each.before = each.now
	}
	return before, nil
}

// Same says whether what rationd keeps of a claim is what these words ask for. Pods come to a claim and leave it while it stays the same.
func Same(kept daemon.Granted, words daemon.Claim) bool {
	if kept.Name != words.Name || len(kept.Devices) != len(words.Devices) || (words.Tenant != "" && words.Tenant != kept.Tenant) {
		return false
	}
	for i, device := range kept.Devices {
		if !strings.EqualFold(device.UUID, words.Devices[i].UUID) || device.LimitBytes != words.Devices[i].LimitBytes || device.GuaranteeBytes != words.Devices[i].GuaranteeBytes {
			return false
		}
	}
	return true
}

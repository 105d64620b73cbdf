// Package fake has what tests put in the place of rationd and kubelet.
package fake

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"sync"
	"testing"

	"ration.sh/kubernetes/daemon"
)

// Rationd serves a socket as rationd does: claims are checked, kept over restarts, and promised once.
type Rationd struct {
	Socket string

	t      *testing.T
	server *http.Server

	mutex   sync.Mutex
	node    daemon.Node
	claims  map[string]daemon.Claim
	tenants map[string]bool
	puts    int
	broken  *daemon.Problem
}

const granule = 2 << 20

// NewRationd starts one with these GPUs. It is stopped when the test ends.
func NewRationd(t *testing.T, devices ...daemon.Device) *Rationd {
	t.Helper()
	folder, err := os.MkdirTemp("", "rationd") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	r := &Rationd{Socket: filepath.Join(folder, "ration.sock"), t: t, claims: map[string]daemon.Claim{}, tenants: map[string]bool{"nlp": true, "vision": true}}
	r.node = daemon.Node{Devices: devices, DriverVersion: "580.65.06", Simulated: true}
	t.Cleanup(func() {
		r.Stop()
		os.RemoveAll(folder)
	})
	r.Start()
	return r
}

// GPU is one of a node: GPU-00000000-…, so many GiB.
func GPU(index int, gib int64) daemon.Device {
	return daemon.Device{Index: index, UUID: fmt.Sprintf("GPU-%08d-aaaa-bbbb-cccc-0123456789ab", index), Name: "NVIDIA H100 80GB HBM3", Capability: "9.0", EnforcedBy: "shim", TotalBytes: gib << 30}
}

// Start listens. What was claimed before is there again.
func (r *Rationd) Start() {
	r.t.Helper()
	os.Remove(r.Socket)
	listener, err := net.Listen("unix", r.Socket)
	if err != nil {
		r.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/snapshot", r.snapshot)
	mux.HandleFunc("GET /api/v1/health", r.health)
	mux.HandleFunc("GET /api/v1/claims", r.list)
	mux.HandleFunc("GET /api/v1/claims/{id}", r.get)
	mux.HandleFunc("PUT /api/v1/claims/{id}", r.put)
	mux.HandleFunc("DELETE /api/v1/claims/{id}", r.delete)
	r.server = &http.Server{Handler: mux}
	go r.server.Serve(listener)
}

// Stop is what a kill does: connections are closed, the socket stays.
func (r *Rationd) Stop() {
	if r.server != nil {
		r.server.Close()
	}
}

// Change alters the node under the lock.
func (r *Rationd) Change(change func(*daemon.Node)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	change(&r.node)
}

// Break has every claim rejected with this problem; nil: no longer.
func (r *Rationd) Break(problem *daemon.Problem) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.broken = problem
}

// Claims are what is kept, by their numbers.
func (r *Rationd) Claims() map[string]daemon.Claim {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	all := map[string]daemon.Claim{}
	for id, claim := range r.claims {
		all[id] = claim
	}
	return all
}

// Puts is how often a claim was asked for.
func (r *Rationd) Puts() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.puts
}

// Keep puts a claim there as somebody else would.
func (r *Rationd) Keep(id string, claim daemon.Claim) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.claims[id] = claim
}

func (r *Rationd) answer(w http.ResponseWriter, schema string, data any) {
	source := map[bool]string{true: "sim", false: "daemon"}[r.node.Simulated]
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"schema": "ration." + schema + "/1", "time": "2026-01-01T00:00:00Z", "host": "n1", "source": source, "data": data})
}

func reject(w http.ResponseWriter, status int, id, detail, fix string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"type": "https://ration.invalid/errors/" + id, "title": http.StatusText(status), "status": status, "detail": detail, "fix": fix, "id": id})
}

// promised is what claims were promised of one GPU, the one of this number left out. The mutex is held.
func (r *Rationd) promised(uuid, except string) (sum int64) {
	for id, claim := range r.claims {
		for _, device := range claim.Devices {
			if device.UUID == uuid && id != except {
				sum += device.GuaranteeBytes
			}
		}
	}
	return
}

func (r *Rationd) snapshot(w http.ResponseWriter, _ *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	devices := []daemon.Device{}
	for _, device := range r.node.Devices {
		device.PromisedBytes += r.promised(device.UUID, "")
		devices = append(devices, device)
	}
	data := map[string]any{"devices": devices, "tenants": []any{}, "workloads": []any{}, "queue": []any{}, "last_event": 0}
	if r.node.Problem != "" {
		data["devices_na"] = r.node.Problem
	}
	r.answer(w, "snapshot", data)
}

func (r *Rationd) health(w http.ResponseWriter, _ *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.answer(w, "health", map[string]any{"version": "0", "driver": r.node.DriverVersion})
}

// granted is a claim as rationd tells it. The mutex is held.
func (r *Rationd) granted(id string) map[string]any {
	claim := r.claims[id]
	devices := []map[string]any{}
	for _, device := range claim.Devices {
		devices = append(devices, map[string]any{"uuid": device.UUID, "gpu": r.device(device.UUID).Index, "limit_bytes": device.LimitBytes, "guarantee_bytes": device.GuaranteeBytes})
	}
	tenant := claim.Tenant
	if tenant == "" {
		tenant = "default"
	}
	return map[string]any{"id": id, "name": claim.Name, "tenant": tenant, "devices": devices, "cdi": "ration.sh/claim=" + id}
}

// device is the GPU of a UUID; without one, a GPU without memory. The mutex is held.
func (r *Rationd) device(uuid string) daemon.Device {
	for _, device := range r.node.Devices {
		if device.UUID == uuid {
			return device
		}
	}
	return daemon.Device{}
}

func (r *Rationd) list(w http.ResponseWriter, _ *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	all := []any{}
	for id := range r.claims {
		all = append(all, r.granted(id))
	}
	r.answer(w, "claims", all)
}

func (r *Rationd) get(w http.ResponseWriter, request *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if _, found := r.claims[request.PathValue("id")]; !found {
		reject(w, 404, daemon.NoSuchClaim, "there is no claim "+request.PathValue("id")+".", "ration claims")
		return
	}
	r.answer(w, "claim", r.granted(request.PathValue("id")))
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}$`)

func (r *Rationd) put(w http.ResponseWriter, request *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.puts++
	id := request.PathValue("id")
	if r.broken != nil {
		reject(w, r.broken.Status, r.broken.ID, r.broken.Detail, r.broken.Fix)
		return
	}
	var claim daemon.Claim
	decoder := json.NewDecoder(request.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&claim); err != nil || !idForm.MatchString(id) || claim.Name == "" || len(claim.Devices) == 0 {
		reject(w, 400, "E1521", fmt.Sprintf("this is no claim: %v.", err), "name and devices")
		return
	}
	if kept, found := r.claims[id]; found {
		if !reflect.DeepEqual(kept, claim) {
			reject(w, 409, daemon.OtherWords, "there is a claim "+id+" already, and it says something else.", "another id")
			return
		}
		r.answer(w, "claim", r.granted(id))
		return
	}
	if claim.Tenant != "" && !r.tenants[claim.Tenant] {
		reject(w, 404, "E1409", "there is no tenant "+claim.Tenant+".", "ration tenants")
		return
	}
	told := map[string]bool{}
	for _, each := range claim.Devices {
		device := r.device(each.UUID)
		switch {
		case device.UUID == "":
			reject(w, 404, "E1407", "there is no GPU "+each.UUID+".", "ration devices")
		case told[each.UUID]:
			reject(w, 400, "E1521", each.UUID+" is there twice.", "one entry a GPU")
		case each.LimitBytes < granule:
			reject(w, 400, "E1105", fmt.Sprintf("%d bytes are less than a granule.", each.LimitBytes), "2MiB")
		case each.LimitBytes > device.TotalBytes:
			reject(w, 409, "E1104", fmt.Sprintf("%d bytes are more than GPU %d has.", each.LimitBytes, device.Index), "less")
		case each.GuaranteeBytes+r.promised(each.UUID, id)+device.PromisedBytes > device.TotalBytes:
			reject(w, 409, daemon.NoRoom, fmt.Sprintf("%d bytes cannot be kept on GPU %d beside what is promised.", each.GuaranteeBytes, device.Index), "less")
		default:
			told[each.UUID] = true
			continue
		}
		return
	}
	r.claims[id] = claim
	r.answer(w, "claim", r.granted(id))
}

func (r *Rationd) delete(w http.ResponseWriter, request *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.claims, request.PathValue("id"))
	w.WriteHeader(204)
}

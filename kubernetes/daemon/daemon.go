// Package daemon asks rationd over its Unix socket. It holds no state: everything that was granted lies with rationd.
package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Device is one GPU, or one MIG instance, as rationd's latest snapshot has it. Sizes are bytes.
type Device struct {
	Index         int     `json:"gpu"`
	UUID          string  `json:"uuid"`
	Name          string  `json:"name"`
	Capability    string  `json:"compute_capability"` // CUDA's, as 8.0; empty: not told
	EnforcedBy    string  `json:"enforced_by"`        // shim, driver and shim
	NUMANodes     []int64 `json:"numa_nodes"`         // whose processors are nearest; empty: not told
	TotalBytes    int64   `json:"total_bytes"`
	PromisedBytes int64   `json:"promised_bytes"`  // of everybody's guarantees, claims' included
	KeepFreeBytes int64   `json:"keep_free_bytes"` // kept from everybody
	// Held by processes that no limit holds. Absent: the driver does not report it.
	UngovernedBytes *int64 `json:"ungoverned_bytes"`
	MIG             *MIG   `json:"mig"` // absent: a whole GPU
}

// MIG says which part of which GPU an instance is.
type MIG struct {
	UUID    string `json:"uuid"` // the whole GPU's
	Profile string `json:"profile"`
}

// Node is what rationd knows of its machine at one moment.
type Node struct {
	Devices       []Device
	DriverVersion string // empty: not told
	Simulated     bool
	Problem       string // why rationd sees no GPU; empty where it does
}

// Claim is what somebody was promised by Kubernetes, as rationd takes it.
type Claim struct {
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels,omitempty"`  // for rules of rationd's configuration; not kept
	Tenant  string            `json:"tenant,omitempty"`  // empty: rationd's configuration assigns one
	OnDeny  string            `json:"on_deny,omitempty"` // fail, wait, wait:30s; empty: rationd's default
	Devices []ClaimDevice     `json:"devices"`           // each GPU once
}

// ClaimDevice is a claim's part of one GPU.
type ClaimDevice struct {
	UUID           string `json:"uuid"`
	LimitBytes     int64  `json:"limit_bytes"`
	GuaranteeBytes int64  `json:"guarantee_bytes"`
}

// Granted is a claim that rationd has written down.
type Granted struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Tenant  string `json:"tenant"`
	Devices []struct {
		ClaimDevice
		Index int `json:"gpu"`
	} `json:"devices"`
	CDI string `json:"cdi"` // name of the device by which a container comes under it
}

// Problem is rationd's own answer to what it rejects.
type Problem struct {
	Status int    `json:"status"`
	ID     string `json:"id"`     // E1304
	Detail string `json:"detail"` // what, how much, whose
	Fix    string `json:"fix"`    // what to type
}

// Numbers of rationd's errors that are told apart here; `ration help errors` has them all.
const (
	NoRoom      = "E1304" // it cannot be kept beside what is promised
	OtherWords  = "E1713" // there is a claim of this id, and it says something else
	NoSuchClaim = "E1714"
)

func (p *Problem) Error() string {
	text := p.Detail
	if p.ID != "" {
		text += " [" + p.ID + "]"
	}
	if p.Fix != "" {
		text += " To do: " + p.Fix
	}
	return text
}

// Is reports whether err is rationd's error of this number.
func Is(err error, id string) bool {
	var problem *Problem
	return errors.As(err, &problem) && problem.ID == id
}

// ErrAbsent says that rationd did not answer; asking again may help.
var ErrAbsent = errors.New("rationd does not answer")

// Client asks one rationd. It may be used by several goroutines.
type Client struct {
	socket string
	http   http.Client
}

// New returns a client of the rationd that listens, or will listen, on a socket.
func New(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", socket)
	}
	// A connection a request: one that was left open would belong to a rationd that has been restarted meanwhile.
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	return &Client{socket, http.Client{Transport: transport, Timeout: 20 * time.Second}}
}

type envelope struct {
	Source string          `json:"source"`
	Data   json.RawMessage `json:"data"`
}

// ask sends one request. `into` may be nil: the answer's data are not wanted. Errors: *Problem, ErrAbsent.
func (c *Client) ask(ctx context.Context, method, path string, body, into any) (envelope, error) {
	var answer envelope
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer, err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, sent)
	if err != nil {
		return answer, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer, fmt.Errorf("%w on %s: %w. To do: see that it runs on this node (kubectl logs of its pod, systemctl status rationd)", ErrAbsent, c.socket, plain(err))
	}
	defer response.Body.Close()
	const most = 64 << 20
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return answer, fmt.Errorf("%w on %s: its answer broke off: %w", ErrAbsent, c.socket, err)
	}
	if response.StatusCode >= 300 {
		return answer, problemOf(response, text)
	}
	if into == nil {
		return answer, nil
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("rationd's answer to %s %s is no JSON: %w", method, path, err)
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		return answer, fmt.Errorf("rationd's answer to %s %s is not as expected: %w", method, path, err)
	}
	return answer, nil
}

// plain leaves the address out, which says nothing of a socket.
func plain(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

func problemOf(response *http.Response, text []byte) error {
	problem := &Problem{}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind != "application/problem+json" || json.Unmarshal(text, problem) != nil || problem.Detail == "" {
		problem.Detail = fmt.Sprintf("rationd answered %s.", response.Status)
	}
	problem.Status = response.StatusCode
	return problem
}

// Node is the machine as of rationd's latest tick.
func (c *Client) Node(ctx context.Context) (Node, error) {
	var snapshot struct {
		Devices []Device `json:"devices"`
		Problem string   `json:"devices_na"`
	}
	answer, err := c.ask(ctx, http.MethodGet, "/api/v1/snapshot?processes=0", nil, &snapshot)
	if err != nil {
		return Node{}, err
	}
	var health struct {
		Driver string `json:"driver"`
	}
	if _, err := c.ask(ctx, http.MethodGet, "/api/v1/health", nil, &health); err != nil {
		return Node{}, err
	}
	return Node{Devices: snapshot.Devices, DriverVersion: health.Driver, Simulated: answer.Source == "sim", Problem: snapshot.Problem}, nil
}

// Put makes a claim, durably. The same words again give the same answer.
func (c *Client) Put(ctx context.Context, id string, claim Claim) (Granted, error) {
	var granted Granted
	_, err := c.ask(ctx, http.MethodPut, "/api/v1/claims/"+url.PathEscape(id), claim, &granted)
	return granted, err
}

// Delete ends a claim. One that does not exist has ended.
func (c *Client) Delete(ctx context.Context, id string) error {
	_, err := c.ask(ctx, http.MethodDelete, "/api/v1/claims/"+url.PathEscape(id), nil, nil)
	return err
}

// Get tells of one claim. E1714 where there is none.
func (c *Client) Get(ctx context.Context, id string) (Granted, error) {
	var granted Granted
	_, err := c.ask(ctx, http.MethodGet, "/api/v1/claims/"+url.PathEscape(id), nil, &granted)
	return granted, err
}

// Claims are all that rationd keeps, whoever made them.
func (c *Client) Claims(ctx context.Context) ([]Granted, error) {
	var granted []Granted
	_, err := c.ask(ctx, http.MethodGet, "/api/v1/claims", nil, &granted)
	return granted, err
}

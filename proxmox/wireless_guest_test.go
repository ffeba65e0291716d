package proxmox_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

// The wait for an agent ends when it answers, or when what is said will not pass.
func TestWaitAgent(t *testing.T) {
	const info = "GET /nodes/pve1/qemu/100/agent/info"
	silent, offNow, away := says(500, "QEMU guest agent is not running"), says(500, "VM 100 is not running"), says(596, "away")
	many := func(n int, h http.HandlerFunc) []http.HandlerFunc { return slices.Repeat([]http.HandlerFunc{h}, n) }
	for name, tt := range map[string]struct {
		answers []http.HandlerFunc
		want    string
	}{
		"at once":                    {[]http.HandlerFunc{data(entry{})}, ""},
		"later":                      {append(many(3, silent), data(entry{})), ""},
		"restarted":                  {append(many(3, offNow), data(entry{})), ""},
		"restarted twice":            {slices.Concat(many(3, offNow), many(1, silent), many(3, offNow), many(1, data(entry{}))), ""},
		"off":                        {many(4, offNow), "guest agent of wk1 (VM 100 on pve1): "},
		"refused":                    {many(1, says(403, "no")), "guest agent of wk1 (VM 100 on pve1): "},
		"away":                       {append(many(9, away), data(entry{})), ""},
		"silent for ever":            {many(1, silent), "the guest agent of wk1 (VM 100 on pve1) has not answered in 10m0s: the guest's network is up, and it still boots or installs: context deadline exceeded"},
		"away for ever":              {many(1, away), "has not answered in 10m0s, and now pve1 does not answer either: context deadline exceeded"},
		"away, then silent for ever": {append(many(9, away), silent), "has not answered in 10m0s: the guest's network is up, and it still boots or installs: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			off(t, map[string][]http.HandlerFunc{info: tt.answers}, func(t *testing.T, c *proxmox.Client, _ *wireless) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				err := c.Agents.Wait(ctx, &proxmox.VM{Name: "wk1", Host: "pve1", VMID: 100})
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
			})
		})
	}
}

// A guest that has not sent a packet since its start is not asked while it is young.
func TestAGuestThatShowsNoLife(t *testing.T) {
	const info = "GET /nodes/pve1/qemu/100/agent/file-read"
	vm := &proxmox.VM{Name: "wk1", Host: "pve1", VMID: 100, NICs: []proxmox.NIC{{Bridge: "vmbr0"}}}
	for name, tt := range map[string]struct {
		list  http.HandlerFunc
		life  bool
		asked int
	}{
		"young":          {data([]any{entry{"vmid": 100, "status": "running", "uptime": 180, "netout": 0}}), false, 0},
		"old":            {data([]any{entry{"vmid": 100, "status": "running", "uptime": 181, "netout": 0}}), true, 1},
		"sends":          {data([]any{entry{"vmid": 100, "status": "running", "uptime": 1, "netout": 1}}), true, 1},
		"off":            {data([]any{entry{"vmid": 100, "status": "stopped", "uptime": 0, "netout": 0}}), true, 1},
		"another":        {data([]any{entry{"vmid": 101, "status": "running", "uptime": 1, "netout": 0}}), true, 1},
		"not to be seen": {says(403, "no"), true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			off(t, map[string][]http.HandlerFunc{"GET /nodes/pve1/qemu": {tt.list}, info: {says(500, "QEMU guest agent is not running")}}, func(t *testing.T, c *proxmox.Client, w *wireless) {
				assert.Equal(t, tt.life, c.Agents.IsAlive(t.Context(), vm))
				_, err := c.Agents.ReadFile(t.Context(), vm, "/x")
				require.ErrorIs(t, err, proxmox.ErrAgentNotRunning)
				assert.Equal(t, tt.life, !strings.Contains(err.Error(), "has not sent anything") || name == "old", err)
				assert.Equal(t, tt.asked, w.asked(info))
				assert.True(t, c.Agents.IsAlive(t.Context(), &proxmox.VM{Host: "pve1", VMID: 100}), "nobody knows of one without an interface")
			})
		})
	}
}

func TestAgentReadFile(t *testing.T) {
	const read = "GET /nodes/pve1/qemu/100/agent/file-read"
	vm := &proxmox.VM{Name: "wk1", Host: "pve1", VMID: 100}
	for want, answer := range map[string]http.HandlerFunc{
		"": data(entry{"content": "h\u00c3\u00a9"}),
		"read /x in wk1 (VM 100 on pve1): larger than the guest agent returns (16 MiB)": data(entry{"content": "a", "truncated": 1}),
		"read /x in wk1 (VM 100 on pve1): proxmox: ":                                    says(500, "Agent error: failed to open file '/x': No such file or directory"),
	} {
		off(t, map[string][]http.HandlerFunc{read: {answer}}, func(t *testing.T, c *proxmox.Client, _ *wireless) {
			got, err := c.Agents.ReadFile(t.Context(), vm, "/x")
			if want != "" {
				require.ErrorContains(t, err, want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "hé", string(got))
		})
	}
}

// How a command in a guest ends, and what is known where its end is not told.
func TestHowACommandEnds(t *testing.T) {
	const start, status = "POST /nodes/pve1/qemu/100/agent/exec", "GET /nodes/pve1/qemu/100/agent/exec-status"
	pid, running := data(entry{"pid": 7}), data(entry{"exited": 0})
	silent := says(500, "QEMU guest agent is not running")
	ended := func(more entry) http.HandlerFunc {
		out := entry{"exited": 1}
		for k, v := range more {
			out[k] = v
		}
		return data(out)
	}
	for name, tt := range map[string]struct {
		start, status []http.HandlerFunc
		out, want     string
		code          int
		signal        string
	}{
		"well":             {start: []http.HandlerFunc{pid}, status: []http.HandlerFunc{running, ended(entry{"out-data": "hi"})}, out: "hi"},
		"badly":            {start: []http.HandlerFunc{pid}, status: []http.HandlerFunc{ended(entry{"exitcode": 3, "err-data": "no"})}, want: "no", code: 3},
		"killed":           {start: []http.HandlerFunc{pid}, status: []http.HandlerFunc{ended(entry{"signal": 9})}, want: "KILL", code: 137, signal: "KILL"},
		"too much output":  {start: []http.HandlerFunc{pid}, status: []http.HandlerFunc{ended(entry{"out-data": "hi", "out-truncated": 1})}, out: "hi", want: "its output is larger than the guest agent returns"},
		"too many errors":  {start: []http.HandlerFunc{pid}, status: []http.HandlerFunc{ended(entry{"err-truncated": 1})}, want: "its output is larger than the guest agent returns"},
		"no process":       {start: []http.HandlerFunc{data(entry{})}, want: "the guest agent's answer names no process"},
		"no program":       {start: []http.HandlerFunc{says(500, "Failed to execute child process “x” (No such file or directory)")}, want: "x: not found", code: 127},
		"perhaps none":     {start: []http.HandlerFunc{says(596, "Broken pipe"), pid}, status: []http.HandlerFunc{ended(entry{"exitcode": 1})}, want: "x: not found", code: 127},
		"there is one":     {start: []http.HandlerFunc{says(596, "Broken pipe"), pid}, status: []http.HandlerFunc{ended(nil)}, want: "Broken pipe"},
		"refused":          {start: []http.HandlerFunc{says(403, "no")}, want: "x in wk1 (VM 100 on pve1): proxmox: POST "},
		"busy for a while": {start: []http.HandlerFunc{pid}, status: append(slices.Repeat([]http.HandlerFunc{silent}, 9), ended(entry{"out-data": "hi"})), out: "hi"},
		"silent for good":  {start: []http.HandlerFunc{pid}, status: []http.HandlerFunc{silent}, want: "QEMU guest agent is not running"},
		"read already":     {start: []http.HandlerFunc{pid}, status: []http.HandlerFunc{says(500, "Agent error: PID 7 does not exist")}, want: "its result was lost in an earlier answer"},
		"status refused":   {start: []http.HandlerFunc{pid}, status: []http.HandlerFunc{says(403, "no")}, want: "x in wk1 (VM 100 on pve1): proxmox: GET "},
	} {
		t.Run(name, func(t *testing.T) {
			off(t, map[string][]http.HandlerFunc{start: tt.start, status: tt.status}, func(t *testing.T, c *proxmox.Client, w *wireless) {
				begun := time.Now()
				out, err := remote.Output(t.Context(), c.Agents.Runner(&proxmox.VM{Name: "wk1", Host: "pve1", VMID: 100}), "x", "y")
				assert.Equal(t, tt.out, string(out))
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				var exit *remote.ExitError
				assert.Equal(t, tt.code != 0, errors.As(err, &exit))
				if exit != nil {
					assert.Equal(t, []any{tt.code, tt.signal}, []any{exit.Code, exit.Signal})
				}
				took := time.Since(begun)
				if name == "silent for good" {
					assert.InDelta(t, 60, took.Seconds(), 2)
				} else {
					assert.Less(t, took, 10*time.Second)
				}
			})
		})
	}
	off(t, nil, func(t *testing.T, c *proxmox.Client, _ *wireless) {
		assert.EqualError(t, c.Agents.Runner(&proxmox.VM{}).Run(t.Context(), remote.Cmd{}), "guest agent: no command")
	})
}

// Input that no request takes as it is goes by way of files, in pieces, which are removed.
func TestInputInPieces(t *testing.T) {
	const start, status, write = "POST /nodes/pve1/qemu/100/agent/exec", "GET /nodes/pve1/qemu/100/agent/exec-status", "POST /nodes/pve1/qemu/100/agent/file-write"
	ended := func(code int) http.HandlerFunc { return data(entry{"exited": 1, "exitcode": code, "err-data": "why"}) }
	run := func(c *proxmox.Client, t *testing.T, input string) error {
		return c.Agents.Runner(&proxmox.VM{Name: "wk1", Host: "pve1", VMID: 100}).Run(t.Context(), remote.Cmd{Args: []string{"cat"}, Stdin: strings.NewReader(input)})
	}
	for name, tt := range map[string]struct {
		input  string
		status []http.HandlerFunc
		write  http.HandlerFunc
		want   string
		pieces int
		execs  int
	}{
		"small":          {input: "a", status: []http.HandlerFunc{ended(0)}, execs: 1},
		"as it may be":   {input: strings.Repeat("a", 64<<10), status: []http.HandlerFunc{ended(0)}, execs: 1},
		"larger":         {input: strings.Repeat("a", 64<<10+1), status: []http.HandlerFunc{ended(0)}, pieces: 2, execs: 3},
		"not ASCII":      {input: "é", status: []http.HandlerFunc{ended(0)}, pieces: 1, execs: 3},
		"two pieces":     {input: strings.Repeat("é", 46080/2), status: []http.HandlerFunc{ended(0)}, pieces: 1, execs: 3},
		"and one more":   {input: strings.Repeat("é", 46080/2) + "a", status: []http.HandlerFunc{ended(0)}, pieces: 2, execs: 3},
		"no folder":      {input: "é", status: []http.HandlerFunc{ended(1)}, want: "mkdir in wk1 (VM 100 on pve1): exit status 1: why", execs: 1},
		"no room":        {input: "é", status: []http.HandlerFunc{ended(0)}, write: says(500, "no room"), want: "input for cat in wk1 (VM 100 on pve1): proxmox: POST /nodes/pve1/qemu/100/agent/file-write: no room", pieces: 1, execs: 2},
		"folder refused": {input: "é", status: []http.HandlerFunc{says(403, "no")}, want: "mkdir in wk1", execs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			answer := tt.write
			if answer == nil {
				answer = data(nil)
			}
			off(t, map[string][]http.HandlerFunc{start: {data(entry{"pid": 7})}, status: tt.status, write: {answer}}, func(t *testing.T, c *proxmox.Client, w *wireless) {
				err := run(c, t, tt.input)
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				assert.Equal(t, []int{tt.pieces, tt.execs}, []int{w.asked(write), w.asked(start)})
				if tt.pieces > 0 {
					all := w.changes()
					assert.Contains(t, all[len(all)-1], `"rm","-rf","--","/run/homelab-input-`)
					assert.Contains(t, all[1], `/000000"`)
				}
			})
		})
	}
}

// The lease is read where it is, and made on a host that is there.
func TestWhereTheLeaseIs(t *testing.T) {
	vmid := 900_000_000 + int(crc32.ChecksumIEEE([]byte("lab"))%99_000_000)
	hosts := func(online ...string) http.HandlerFunc {
		all := []any{}
		for _, h := range []string{"pve1", "pve2", "pve3"} {
			status := "offline"
			if slices.Contains(online, h) {
				status = "online"
			}
			all = append(all, entry{"node": h, "status": status})
		}
		return data(all)
	}
	on := func(host, kind string) http.HandlerFunc {
		return data([]any{entry{"type": "qemu", "vmid": 100, "node": "pve3"}, entry{"type": kind, "vmid": vmid, "node": host}})
	}
	config := func(more entry) []http.HandlerFunc {
		out := entry{"digest": "d", "name": "homelab-lab-lease", "description": "text"}
		for k, v := range more {
			out[k] = v
		}
		return []http.HandlerFunc{data(out)}
	}
	path := func(host string) string { return fmt.Sprintf("GET /nodes/%s/qemu/%d/config", host, vmid) }
	for name, tt := range map[string]struct {
		answers map[string][]http.HandlerFunc
		seen    converge.LeaseRecord
		err     string
		at      string
		passes  bool
	}{
		"none, on the second":   {map[string][]http.HandlerFunc{"GET /nodes": {hosts("pve2", "pve3")}}, converge.LeaseRecord{}, converge.ErrNoLease.Error(), "pve2", false},
		"none, on another":      {map[string][]http.HandlerFunc{"GET /nodes": {hosts("pve3")}}, converge.LeaseRecord{}, converge.ErrNoLease.Error(), "pve3", false},
		"none, none is online":  {map[string][]http.HandlerFunc{"GET /nodes": {hosts()}}, converge.LeaseRecord{}, converge.ErrNoLease.Error(), "pve1", false},
		"no host":               {map[string][]http.HandlerFunc{"GET /nodes": {data([]any{})}}, converge.LeaseRecord{}, "the lease has no host to be created on", "", true},
		"there":                 {map[string][]http.HandlerFunc{"GET /nodes": {hosts("pve1", "pve3")}, "GET /cluster/resources": {on("pve3", "qemu")}, path("pve3"): config(nil)}, converge.LeaseRecord{Text: "text", Version: "d"}, "", "pve3", false},
		"there, offline":        {map[string][]http.HandlerFunc{"GET /nodes": {hosts("pve1")}, "GET /cluster/resources": {on("pve3", "qemu")}}, converge.LeaseRecord{}, fmt.Sprintf("the lease is VM %d on pve3, which is offline", vmid), "", true},
		"a container":           {map[string][]http.HandlerFunc{"GET /nodes": {hosts("pve2")}, "GET /cluster/resources": {on("pve3", "lxc")}}, converge.LeaseRecord{}, converge.ErrNoLease.Error(), "pve2", false},
		"locked":                {map[string][]http.HandlerFunc{"GET /nodes": {hosts("pve1")}, "GET /cluster/resources": {on("pve1", "qemu")}, path("pve1"): config(entry{"lock": "backup"})}, converge.LeaseRecord{Text: "text", Version: "d", Locked: "backup"}, "", "pve1", false},
		"being made":            {map[string][]http.HandlerFunc{"GET /nodes": {hosts("pve1")}, "GET /cluster/resources": {on("pve1", "qemu")}, path("pve1"): config(entry{"name": "", "lock": "create", "description": ""})}, converge.LeaseRecord{Version: "d"}, "", "pve1", false},
		"nameless":              {map[string][]http.HandlerFunc{"GET /nodes": {hosts("pve1")}, "GET /cluster/resources": {on("pve1", "qemu")}, path("pve1"): config(entry{"name": ""})}, converge.LeaseRecord{}, "(without a name) on pve1 belongs to somebody else", "pve1", false},
		"another name":          {map[string][]http.HandlerFunc{"GET /nodes": {hosts("pve1")}, "GET /cluster/resources": {on("pve1", "qemu")}, path("pve1"): config(entry{"name": "homelab-lab"})}, converge.LeaseRecord{}, "(homelab-lab) on pve1 belongs to somebody else", "pve1", false},
		"another name's":        {map[string][]http.HandlerFunc{"GET /nodes": {hosts("pve1")}, "GET /cluster/resources": {on("pve1", "qemu")}, path("pve1"): config(entry{"name": "x-lease", "lock": "create"})}, converge.LeaseRecord{}, "(x-lease) on pve1 belongs to somebody else", "pve1", false},
		"gone while it is read": {map[string][]http.HandlerFunc{"GET /nodes": {hosts("pve1")}, "GET /cluster/resources": {on("pve1", "qemu")}, path("pve1"): {says(500, goneText)}}, converge.LeaseRecord{}, "does not exist", "pve1", true},
		"hidden":                {map[string][]http.HandlerFunc{"GET /nodes": {says(403, "hidden")}}, converge.LeaseRecord{}, "hidden", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			off(t, tt.answers, func(t *testing.T, c *proxmox.Client, _ *wireless) {
				store := c.Lease("lab", "pve1", "pve2")
				seen, err := store.Read(t.Context())
				assert.Equal(t, tt.seen, seen)
				if tt.err == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.err)
				}
				assert.Equal(t, tt.passes, converge.IsTransient(err), err)
				assert.Equal(t, strings.Contains(tt.err, "belongs to somebody else") || tt.err == "hidden", converge.IsPermanent(err), err)
				where := fmt.Sprintf("VM %d (homelab-lab-lease)", vmid)
				if tt.at != "" {
					where += " on " + tt.at
				}
				assert.Equal(t, where, store.String())
			})
		})
	}
}

// A lease that somebody else has written meanwhile is stale, and one that is busy is busy.
func TestTheLeaseIsWritten(t *testing.T) {
	vmid := 900_000_000 + int(crc32.ChecksumIEEE([]byte("lab"))%99_000_000)
	base := fmt.Sprintf("/nodes/pve1/qemu/%d", vmid)
	upid := workerOf("qmcreate", fmt.Sprint(vmid))
	answers := map[string][]http.HandlerFunc{
		"GET /nodes": {data([]any{entry{"node": "pve1", "status": "online"}})}, "GET /nodes/pve1/tasks": {taskEnd(upid, "OK")},
	}
	for name, tt := range map[string]struct {
		key    string
		answer http.HandlerFunc
		do     func(context.Context, converge.LeaseStore) error
		is     error
		want   string
		passes bool
	}{
		"made":     {"POST /nodes/pve1/qemu", data(upid), func(ctx context.Context, s converge.LeaseStore) error { return s.Create(ctx, "x") }, nil, "", false},
		"there":    {"POST /nodes/pve1/qemu", says(500, fmt.Sprintf("unable to create VM %d: config file already exists", vmid)), func(ctx context.Context, s converge.LeaseStore) error { return s.Create(ctx, "x") }, converge.ErrLeaseExists, "", false},
		"not made": {"POST /nodes/pve1/qemu", says(403, "no"), func(ctx context.Context, s converge.LeaseStore) error { return s.Create(ctx, "x") }, nil, "no", false},
		"replaced": {"PUT " + base + "/config", data(nil), func(ctx context.Context, s converge.LeaseStore) error {
			return s.Replace(ctx, converge.LeaseRecord{}, "x")
		}, nil, "", false},
		"stale": {"PUT " + base + "/config", says(500, "checksum mismatch (file change by other user?)"), func(ctx context.Context, s converge.LeaseStore) error {
			return s.Replace(ctx, converge.LeaseRecord{}, "x")
		}, converge.ErrLeaseStale, "", false},
		"locked": {"PUT " + base + "/config", says(500, "VM is locked (backup)"), func(ctx context.Context, s converge.LeaseStore) error {
			return s.Replace(ctx, converge.LeaseRecord{}, "x")
		}, converge.ErrLeaseStale, "", false},
		"never made": {"PUT " + base + "/config", says(500, "VM is locked (create)"), func(ctx context.Context, s converge.LeaseStore) error {
			return s.Replace(ctx, converge.LeaseRecord{}, "x")
		}, nil, "was never completely created: on the host run qm unlock", false},
		"refused": {"PUT " + base + "/config", says(403, "no"), func(ctx context.Context, s converge.LeaseStore) error {
			return s.Replace(ctx, converge.LeaseRecord{}, "x")
		}, nil, "no", false},
		"removed":          {"DELETE " + base, data(upid), func(ctx context.Context, s converge.LeaseStore) error { return s.Remove(ctx, converge.LeaseRecord{}) }, nil, "", false},
		"gone":             {"DELETE " + base, says(500, goneText), func(ctx context.Context, s converge.LeaseStore) error { return s.Remove(ctx, converge.LeaseRecord{}) }, nil, "", false},
		"locked, not gone": {"DELETE " + base, says(500, "VM is locked (backup)"), func(ctx context.Context, s converge.LeaseStore) error { return s.Remove(ctx, converge.LeaseRecord{}) }, nil, "VM is locked (backup)", true},
		"held meanwhile":   {"DELETE " + base, says(500, "can't remove VM 1 - protection mode enabled"), func(ctx context.Context, s converge.LeaseStore) error { return s.Remove(ctx, converge.LeaseRecord{}) }, converge.ErrLeaseStale, "", false},
		"not removed":      {"DELETE " + base, says(403, "no"), func(ctx context.Context, s converge.LeaseStore) error { return s.Remove(ctx, converge.LeaseRecord{}) }, nil, "no", false},
	} {
		t.Run(name, func(t *testing.T) {
			all := map[string][]http.HandlerFunc{"PUT " + base + "/config": {data(nil)}}
			for k, v := range answers {
				all[k] = v
			}
			all[tt.key] = []http.HandlerFunc{tt.answer}
			off(t, all, func(t *testing.T, c *proxmox.Client, w *wireless) {
				store := c.Lease("lab", "pve1")
				_, err := store.Read(t.Context())
				require.ErrorIs(t, err, converge.ErrNoLease)
				done := c.Guard(func(context.Context) error { return errors.New("held back") })
				defer done()
				err = tt.do(t.Context(), store)
				switch {
				case tt.is != nil:
					require.ErrorIs(t, err, tt.is)
				case tt.want != "":
					require.ErrorContains(t, err, tt.want)
				default:
					require.NoError(t, err)
				}
				assert.Equal(t, tt.passes, converge.IsTransient(err))
				requests := 1
				if strings.HasPrefix(tt.key, http.MethodDelete) { // what protects it is taken off before
					requests = 2
				}
				assert.Len(t, w.changes(), requests)
			})
		})
	}
}

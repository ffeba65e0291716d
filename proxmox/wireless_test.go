package proxmox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/secret"
)

// wireless is a host without a network, so that it can be in virtual time. What is asked
// several times is answered in turn, and then as at last.
type wireless struct {
	mu      sync.Mutex
	answers map[string][]http.HandlerFunc
	calls   []string // "GET /version", of changes with their parameters
}

func (w *wireless) RoundTrip(req *http.Request) (*http.Response, error) {
	key := req.Method + " " + req.URL.Path[len("/api2/json"):]
	if req.URL.ForceQuery {
		key += " with a question mark"
	}
	call := key
	if req.Method == http.MethodDelete && req.URL.RawQuery != "" {
		call += " " + req.URL.RawQuery
	}
	if req.Body != nil && req.Method != http.MethodGet {
		var body map[string]any
		if json.NewDecoder(req.Body).Decode(&body) == nil && body != nil {
			raw, _ := json.Marshal(body)
			call += " " + string(raw)
		}
	}
	w.mu.Lock()
	w.calls = append(w.calls, call)
	answer := says(http.StatusNotImplemented, "nothing here")
	if all := w.answers[key]; len(all) > 0 {
		if answer = all[0]; len(all) > 1 {
			w.answers[key] = all[1:]
		}
	}
	w.mu.Unlock()
	recorder := httptest.NewRecorder()
	answer(recorder, req)
	res := recorder.Result()
	res.Request = req
	return res, nil
}

// asked counts calls that begin so.
func (w *wireless) asked(prefix string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

// changes are the calls that are no looks.
func (w *wireless) changes() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if !strings.HasPrefix(c, "GET ") {
			out = append(out, c)
		}
	}
	return out
}

// says answers with an error in Proxmox's words.
func says(status int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(entry{"message": message})
	}
}

// off is a test with a host that answers as is said, and in any case its version, and that
// there are no VMs and no tasks.
func off(t *testing.T, answers map[string][]http.HandlerFunc, test func(t *testing.T, c *proxmox.Client, w *wireless)) {
	t.Helper()
	offWith(t, answers, proxmox.Config{}, test)
}

func offWith(t *testing.T, answers map[string][]http.HandlerFunc, cfg proxmox.Config, test func(t *testing.T, c *proxmox.Client, w *wireless)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &wireless{answers: map[string][]http.HandlerFunc{
			"GET /version": {data(entry{"version": "9.2.11", "release": "9.2"})}, "GET /cluster/resources": {data([]any{})}, "GET /nodes/pve1/tasks": {data([]any{})},
		}}
		for k, v := range answers {
			w.answers[k] = v
		}
		cfg.Endpoint, cfg.TokenID, cfg.TokenSecret, cfg.HTTPClient = "pve1", tokenID, secret.New(tokenSecret), &http.Client{Transport: w}
		c, err := proxmox.Dial(t.Context(), cfg)
		require.NoError(t, err)
		test(t, c, w)
	})
}

// vmsOf is the answers of a host with VMs, each by its VMID and configuration.
func vmsOf(all map[int]map[string]string, more map[string][]http.HandlerFunc) map[string][]http.HandlerFunc {
	out, list := map[string][]http.HandlerFunc{}, []any{}
	for id, config := range all {
		status := "stopped"
		if config["status"] != "" {
			status = config["status"]
		}
		list = append(list, entry{"type": "qemu", "vmid": id, "node": "pve1", "name": config["name"], "status": status, "tags": config["tags"], "lock": config["lock"], "template": config["template"]})
		out[fmt.Sprintf("GET /nodes/pve1/qemu/%d/pending", id)] = []http.HandlerFunc{pending(config)}
		out[fmt.Sprintf("GET /nodes/pve1/qemu/%d/status/current", id)] = []http.HandlerFunc{data(entry{"status": status})}
	}
	out["GET /cluster/resources"], out["GET /nodes/pve1/qemu"] = []http.HandlerFunc{data(list)}, []http.HandlerFunc{data(list)}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// worker is the id of a task, and taskEnd a list that has it with its end, or running.
func workerOf(kind, id string) string {
	return "UPID:pve1:000005AB:00054957:6B007E61:" + kind + ":" + id + ":" + tokenID + ":"
}

func taskEnd(upid, status string) http.HandlerFunc { return data([]any{taskEntry(upid, status)}) }

func taskEntry(upid, status string) entry {
	parts := strings.Split(upid, ":")
	out := entry{"upid": upid, "type": parts[5], "id": parts[6], "user": parts[7], "starttime": 1795194436}
	if status != "" {
		out["status"], out["endtime"] = status, 1795194437
	}
	return out
}

const (
	startPath = "POST /nodes/pve1/qemu/100/status/start"
	goneText  = "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist"
)

// A task that the list of tasks does not have is asked for by itself.
func TestATaskThatIsNotListed(t *testing.T) {
	upid := workerOf("qmstart", "100")
	status := "GET /nodes/pve1/tasks/" + upid + "/status"
	stopped := func(exit string) http.HandlerFunc { return data(entry{"status": "stopped", "exitstatus": exit}) }
	for name, tt := range map[string]struct {
		list, one []http.HandlerFunc
		want      string
		asked     int
	}{
		"listed at once":     {[]http.HandlerFunc{taskEnd(upid, "OK")}, nil, "", 0},
		"listed late":        {[]http.HandlerFunc{data([]any{}), taskEnd(upid, "OK")}, nil, "", 0},
		"in both lists":      {[]http.HandlerFunc{data([]any{taskEntry(upid, ""), taskEntry(upid, "OK")})}, nil, "", 0},
		"in both, the other": {[]http.HandlerFunc{data([]any{taskEntry(upid, "OK"), taskEntry(upid, "")})}, nil, "", 0},
		"seen in between":    {[]http.HandlerFunc{data([]any{}), taskEnd(upid, ""), data([]any{}), taskEnd(upid, "OK")}, nil, "", 0},
		"asked for":          {[]http.HandlerFunc{data([]any{})}, []http.HandlerFunc{data(entry{"status": "running"}), stopped("OK")}, "", 2},
		"asked for, failed":  {[]http.HandlerFunc{data([]any{})}, []http.HandlerFunc{stopped("on fire")}, "qmstart of 100 on pve1 failed: on fire", 1},
		"forgotten":          {[]http.HandlerFunc{data([]any{})}, []http.HandlerFunc{says(500, "no such task")}, "no such task", 1},
		"away for a while":   {[]http.HandlerFunc{data([]any{})}, append(slices.Repeat([]http.HandlerFunc{says(596, "away")}, 9), stopped("OK")), "", 10},
		"warnings":           {[]http.HandlerFunc{taskEnd(upid, "WARNINGS: 2")}, nil, "", 0},
		"failed":             {[]http.HandlerFunc{taskEnd(upid, "no room\n")}, nil, "qmstart of 100 on pve1 failed: no room\n  | a\n  | b", 0},
	} {
		t.Run(name, func(t *testing.T) {
			off(t, map[string][]http.HandlerFunc{
				startPath: {data(upid)}, "GET /nodes/pve1/tasks": tt.list, status: tt.one,
				"GET /nodes/pve1/tasks/" + upid + "/log": {data([]any{entry{"n": 1, "t": "a"}, entry{"n": 2, "t": "b"}})},
			}, func(t *testing.T, c *proxmox.Client, w *wireless) {
				vm := &proxmox.VM{Name: "a", Host: "pve1", VMID: 100}
				err := c.VMs.Start(t.Context(), vm)
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
					assert.ErrorContains(t, err, "start a (VM 100 on pve1): ")
				}
				assert.Equal(t, tt.want == "", vm.Running)
				assert.Equal(t, tt.asked, w.asked(status))
				assert.Equal(t, 1, w.asked(startPath))
			})
		})
	}
}

// Of a log that is long the end is shown.
func TestTheEndOfALog(t *testing.T) {
	upid := workerOf("qmstart", "100")
	lines := []any{}
	for i := range 13 {
		lines = append(lines, entry{"n": i, "t": fmt.Sprintf("line %d.", i)})
	}
	off(t, map[string][]http.HandlerFunc{startPath: {data(upid)}, "GET /nodes/pve1/tasks": {taskEnd(upid, "no")}, "GET /nodes/pve1/tasks/" + upid + "/log": {data(lines)}},
		func(t *testing.T, c *proxmox.Client, _ *wireless) {
			var failed *api.TaskError
			require.ErrorAs(t, c.VMs.Start(t.Context(), &proxmox.VM{Host: "pve1", VMID: 100}), &failed)
			require.Len(t, failed.Log, 10)
			assert.Equal(t, "line 3.", failed.Log[0])
		})
}

// Work that meets what passes is looked at and begun again, six times at most.
func TestWorkThatIsBegunAgain(t *testing.T) {
	upid := workerOf("qmstart", "100")
	busy := says(500, "can't lock file '/x' - got timeout")
	current := "GET /nodes/pve1/qemu/100/status/current"
	for name, tt := range map[string]struct {
		start, current []http.HandlerFunc
		want           string
		begun, looked  int
	}{
		"once":            {[]http.HandlerFunc{data(upid)}, nil, "", 1, 0},
		"runs already":    {[]http.HandlerFunc{says(500, "VM 100 already running")}, nil, "", 1, 0},
		"busy":            {[]http.HandlerFunc{busy, data(upid)}, []http.HandlerFunc{data(entry{"status": "stopped"})}, "", 2, 1},
		"done after all":  {[]http.HandlerFunc{busy}, []http.HandlerFunc{data(entry{"status": "running"})}, "", 1, 1},
		"busy for ever":   {[]http.HandlerFunc{busy}, []http.HandlerFunc{data(entry{"status": "stopped"})}, "got timeout", 6, 5},
		"refused":         {[]http.HandlerFunc{says(403, "no")}, nil, "lacks a privilege", 1, 0},
		"then refused":    {[]http.HandlerFunc{busy, says(403, "no")}, []http.HandlerFunc{data(entry{"status": "stopped"})}, "lacks a privilege", 2, 1},
		"look is refused": {[]http.HandlerFunc{busy}, []http.HandlerFunc{says(403, "blind")}, "blind", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			off(t, map[string][]http.HandlerFunc{startPath: tt.start, "GET /nodes/pve1/tasks": {taskEnd(upid, "OK")}, current: tt.current}, func(t *testing.T, c *proxmox.Client, w *wireless) {
				begun := time.Now()
				err := c.VMs.Start(t.Context(), &proxmox.VM{Name: "a", Host: "pve1", VMID: 100})
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				assert.Equal(t, tt.begun, w.asked(startPath))
				assert.Equal(t, tt.looked, w.asked(current))
				// Pauses of 0.5, 1, 2, 4 and 8 s, each half as long or half as long again.
				pauses := []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 3500 * time.Millisecond, 7500 * time.Millisecond, 15500 * time.Millisecond}[tt.looked]
				assert.GreaterOrEqual(t, time.Since(begun), pauses/2)
				assert.Less(t, time.Since(begun), pauses*3/2+time.Second)
			})
		})
	}
}

// Whether a VM was ever started is told by the tasks since it was made.
func TestStarted(t *testing.T) {
	upid := workerOf("qmstart", "100")
	for status, want := range map[string]bool{"": true, "OK": true, "WARNINGS: 1": true, "start failed": false} {
		var query url.Values
		list := func(w http.ResponseWriter, r *http.Request) { query = r.URL.Query(); taskEnd(upid, status)(w, r) }
		off(t, vmsOf(map[int]map[string]string{100: {"name": "a", "meta": "creation-qemu=9.2,ctime=1700000000,x=1"}, 101: {"name": "b"}}, map[string][]http.HandlerFunc{"GET /nodes/pve1/tasks": {list}}),
			func(t *testing.T, c *proxmox.Client, _ *wireless) {
				vm, err := c.VMs.GetByID(t.Context(), 100)
				require.NoError(t, err)
				got, err := c.VMs.EverStarted(t.Context(), vm)
				require.NoError(t, err)
				assert.Equal(t, want, got, status)
				assert.Equal(t, "limit=500&since=1700000000&source=all&typefilter=qmstart&vmid=100", query.Encode())
				vm, err = c.VMs.GetByID(t.Context(), 101)
				require.NoError(t, err)
				_, err = c.VMs.EverStarted(t.Context(), vm)
				require.NoError(t, err)
				assert.False(t, query.Has("since"))
				_, err = c.VMs.EverStarted(t.Context(), &proxmox.VM{Host: "pve2"})
				assert.Error(t, err)
			})
	}
}

// What is to be removed is looked at first: nothing else is.
func TestRemoveLooksFirst(t *testing.T) {
	upid, stop := workerOf("qmdestroy", "100"), workerOf("qmstop", "100")
	const (
		destroy = "DELETE /nodes/pve1/qemu/100"
		wreck   = destroy + " purge=1" // and no other disks that bear its number
	)
	ours := func(more ...string) map[string]string {
		return marked(100, append([]string{"name", "wk1"}, more...)...)
	}
	ended := data([]any{taskEntry(upid, "OK"), taskEntry(stop, "OK")})
	for name, tt := range map[string]struct {
		config  map[string]string
		locked  string // as it was seen
		answers map[string][]http.HandlerFunc
		want    string
		deed    []string
	}{
		"off":       {config: ours(), deed: []string{wreck}},
		"on":        {config: ours("status", "running"), deed: []string{"POST /nodes/pve1/qemu/100/status/stop", wreck}},
		"renamed":   {config: ours("name", "wk2"), want: "VM 100 on pve1 is now called wk2, not wk1: not removed"},
		"not ours":  {config: map[string]string{"name": "wk1", "smbios1": "uuid=0a0b0c0d-0000-4000-8000-000000000000"}, want: "does not carry the tag homelab-a100: not removed"},
		"another":   {config: marked(100, "name", "wk1", "smbios1", "uuid=1a0b0c0d-0000-4000-8000-000000000000", "tags", "homelab-a100;homelab-a100_100_1a0b0c0d"), want: "not removed: proxmox: VM 100 on pve1 is no longer the machine wk1: it has another UUID"},
		"locked":    {config: ours("lock", "backup"), want: "VM 100 on pve1 is locked (backup) and no task is running on it"},
		"gone":      {config: ours(), answers: map[string][]http.HandlerFunc{"GET /nodes/pve1/qemu/100/pending": {says(500, goneText)}}},
		"gone, too": {config: ours(), locked: "backup", answers: map[string][]http.HandlerFunc{"GET /nodes/pve1/qemu/100/status/current": {says(500, goneText)}}},
		"hidden":    {config: ours(), answers: map[string][]http.HandlerFunc{"GET /nodes/pve1/qemu/100/pending": {says(403, "hidden")}}, want: "hidden"},
		"started since": {config: ours(), answers: map[string][]http.HandlerFunc{destroy: {says(500, "VM 100 is running - destroy failed"), data(upid)}},
			deed: []string{wreck, "POST /nodes/pve1/qemu/100/status/stop", wreck}},
		"destroyed since": {config: ours(), answers: map[string][]http.HandlerFunc{destroy: {says(500, goneText)}}, deed: []string{wreck}},
		"refused":         {config: ours(), answers: map[string][]http.HandlerFunc{destroy: {says(403, "no")}}, want: "destroy wk1 (VM 100 on pve1): ", deed: []string{wreck}},
		"stop refused":    {config: ours("status", "running"), answers: map[string][]http.HandlerFunc{"POST /nodes/pve1/qemu/100/status/stop": {says(403, "no")}}, want: "stop wk1 (VM 100 on pve1): ", deed: []string{"POST /nodes/pve1/qemu/100/status/stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string][]http.HandlerFunc{destroy: {data(upid)}, "POST /nodes/pve1/qemu/100/status/stop": {data(stop)},
				"GET /nodes/pve1/tasks": {func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Query().Get("source") == "active" {
						data([]any{})(w, r)
						return
					}
					ended(w, r)
				}}}
			for k, v := range tt.answers {
				answers[k] = v
			}
			seen := vmsOf(map[int]map[string]string{100: ours()}, nil)
			now := vmsOf(map[int]map[string]string{100: tt.config}, answers)
			now["GET /nodes/pve1/qemu/100/pending"] = append(seen["GET /nodes/pve1/qemu/100/pending"], now["GET /nodes/pve1/qemu/100/pending"]...)
			off(t, now, func(t *testing.T, c *proxmox.Client, w *wireless) {
				vm, err := c.VMs.GetByID(t.Context(), 100)
				require.NoError(t, err)
				vm.Owner, vm.Locked = owner, tt.locked
				err = c.VMs.Remove(t.Context(), vm)
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				var did []string
				for _, call := range w.changes() {
					what, _, _ := strings.Cut(call, " {")
					did = append(did, what)
				}
				assert.Equal(t, tt.deed, did)
			})
		})
	}
}

// A destroy that ends with warnings may have left disks: they go, unless the VMID is
// another's by now.
func TestDisksThatADestroyLeft(t *testing.T) {
	upid, del := workerOf("qmdestroy", "100"), "DELETE /nodes/pve1/storage/thin/content/thin:vm-100-disk-0"
	own, another := entry{"volid": "thin:vm-100-disk-0", "vmid": 100}, entry{"volid": "thin:vm-101-disk-0", "vmid": 101}
	left, unnamed := data([]any{own, another}), data([]any{another, entry{"volid": "thin:vm-100-disk-7", "vmid": 100}})
	for name, tt := range map[string]struct {
		exit                 string
		content, nextid, del http.HandlerFunc
		scsi9                string // of VM 101
		want                 string
		deleted              int
	}{
		"well":              {"OK", data([]any{}), nil, nil, "", "", 0},
		"nothing left":      {"WARNINGS: 1", data([]any{}), nil, nil, "", "", 0},
		"none of its":       {"WARNINGS: 1", unnamed, nil, nil, "", "", 0},
		"and nobody looks":  {"OK", says(500, "no"), nil, nil, "", "", 0},
		"left by an OK":     {"OK", left, data("100"), data(nil), "", "", 1}, // before qemu-server 9.2
		"left":              {"WARNINGS: 1", left, data("100"), data(nil), "", "", 1},
		"hung on another":   {"WARNINGS: 1", left, data("100"), nil, "thin:vm-100-disk-0,size=1G", "", 0},
		"another's by now":  {"WARNINGS: 1", left, says(400, "VM 100 already exists"), nil, "", "", 0},
		"nobody knows":      {"WARNINGS: 1", left, says(403, "no"), nil, "", "VM 100 is destroyed, but whether its disks thin:vm-100-disk-0 are another's by now could not be seen", 0},
		"cannot be seen":    {"WARNINGS: 1", says(403, "no"), nil, nil, "", "VM 100 is destroyed, but whether its disks are gone could not be seen", 0},
		"cannot be deleted": {"WARNINGS: 1", left, data("100"), says(403, "no"), "", "VM 100 is destroyed, but its disk thin:vm-100-disk-0 is not", 1},
	} {
		t.Run(name, func(t *testing.T) {
			config := marked(100, "name", "wk1", "scsi0", "thin:vm-100-disk-0,size=1G")
			other := map[string]string{"name": "nas", "scsi9": tt.scsi9}
			off(t, vmsOf(map[int]map[string]string{100: config, 101: other}, map[string][]http.HandlerFunc{
				"DELETE /nodes/pve1/qemu/100": {data(upid)}, "GET /nodes/pve1/storage/thin/content": {tt.content}, "GET /cluster/nextid": {tt.nextid}, del: {tt.del},
				"GET /nodes/pve1/tasks": {taskEnd(upid, tt.exit)},
			}), func(t *testing.T, c *proxmox.Client, w *wireless) {
				vm, err := c.VMs.GetByID(t.Context(), 100)
				require.NoError(t, err)
				if err = c.VMs.Remove(t.Context(), vm); tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				assert.Equal(t, tt.deleted, w.asked(del))
			})
		})
	}
}

// A lock is waited for while somebody is at work, and told when nobody is.
func TestALockIsWaitedFor(t *testing.T) {
	backup, clone, others := workerOf("vzdump", "100"), workerOf("qmclone", "900"), workerOf("vzdump", "101")
	failing := workerOf("qmsnapshot", "100")
	locked := func(lock string) http.HandlerFunc { return pending(marked(100, "name", "wk1", "lock", lock)) }
	free := pending(marked(100, "name", "wk1"))
	for name, tt := range map[string]struct {
		lock   string
		active []any
		looks  []http.HandlerFunc
		want   string
	}{
		"a backup":          {"backup", []any{taskEntry(backup, "")}, []http.HandlerFunc{locked("backup"), free}, ""},
		"a clone elsewhere": {"clone", []any{taskEntry(clone, "")}, slices.Concat(slices.Repeat([]http.HandlerFunc{locked("clone")}, 5), []http.HandlerFunc{free}), ""},
		"not by a clone":    {"backup", []any{taskEntry(clone, "")}, []http.HandlerFunc{locked("backup")}, "is locked (backup) and no task is running on it"},
		"another's backup":  {"backup", []any{taskEntry(others, "")}, []http.HandlerFunc{locked("backup")}, "is locked (backup) and no task is running on it"},
		"nobody":            {"backup", nil, []http.HandlerFunc{locked("backup")}, "is locked (backup) and no task is running on it"},
		"just free":         {"backup", nil, []http.HandlerFunc{locked("backup"), locked("backup"), free}, ""},
		"hidden":            {"backup", nil, []http.HandlerFunc{says(403, "hidden")}, "hidden"},
		"a failed backup":   {"backup", []any{taskEntry(backup, ""), taskEntry(failing, "")}, []http.HandlerFunc{locked("backup"), free}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tasks := func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("source") == "active" {
					data(tt.active)(w, r)
					return
				}
				data([]any{taskEntry(backup, "it failed"), taskEntry(clone, "OK"), taskEntry(failing, "it failed")})(w, r)
			}
			first := []http.HandlerFunc{locked(tt.lock), locked(tt.lock)}
			off(t, vmsOf(map[int]map[string]string{100: marked(100, "name", "wk1", "lock", tt.lock)}, map[string][]http.HandlerFunc{
				"GET /nodes/pve1/tasks": {data([]any{}), data([]any{}), tasks}, "GET /nodes/pve1/qemu/100/pending": append(first, tt.looks...),
				"DELETE /nodes/pve1/qemu/100": {says(500, "VM is not there: "+goneText)},
			}), func(t *testing.T, c *proxmox.Client, w *wireless) {
				vm, err := c.VMs.GetByID(t.Context(), 100)
				require.NoError(t, err)
				vm.Owner = owner
				err = c.VMs.Remove(t.Context(), vm)
				assert.Equal(t, tt.want == "", w.asked("DELETE ") == 1)
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
			})
		})
	}
}

// Tasks that an earlier run with the same token has left are waited for, once; consoles
// and others' are not.
func TestTasksOfAnEarlierRun(t *testing.T) {
	ours, console := workerOf("qmclone", "900"), workerOf("vncproxy", "900")
	theirs := strings.Replace(ours, tokenID, "root@pam", 1)
	for name, tt := range map[string]struct {
		active []any
		want   bool
		looks  int
	}{
		"none": {nil, false, 1}, "ours": {[]any{taskEntry(console, ""), taskEntry(ours, "")}, true, 3 /* with its log */}, "a console": {[]any{taskEntry(console, "")}, false, 1},
		"theirs": {[]any{taskEntry(theirs, "")}, false, 1}, "ended": {[]any{taskEntry(ours, "OK")}, false, 1}, "odd": {[]any{entry{"upid": "x"}}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			off(t, map[string][]http.HandlerFunc{"GET /nodes/pve1/tasks": {data(tt.active), taskEnd(ours, "it failed")}}, func(t *testing.T, c *proxmox.Client, w *wireless) {
				for range 2 {
					waited, err := c.WaitForEarlierTasks(t.Context(), "pve1")
					require.NoError(t, err)
					assert.Equal(t, tt.want, waited)
				}
				assert.Equal(t, tt.looks, w.asked("GET /nodes/pve1/tasks"), "%v", w.calls)
			})
		})
	}
	off(t, map[string][]http.HandlerFunc{"GET /nodes/pve1/tasks": {says(403, "no")}}, func(t *testing.T, c *proxmox.Client, _ *wireless) {
		_, err := c.WaitForEarlierTasks(t.Context(), "pve1")
		assert.Error(t, err)
	})
}

// Of several templates with one name the one on the VM's own host is taken, then the one on
// the first host.
func TestWhichTemplate(t *testing.T) {
	hosts := []string{"pve3", "pve1", "pve2", "pve1"}
	answers, list := map[string][]http.HandlerFunc{}, []any{}
	for i, host := range hosts {
		id := 103 - i
		config := marked(id, "name", "tmpl", "template", "1")
		one := entry{"type": "qemu", "vmid": id, "node": host, "name": "tmpl", "status": "stopped", "tags": config["tags"], "template": 1}
		list = append(list, one)
		answers[fmt.Sprintf("GET /nodes/%s/qemu/%d/pending", host, id)] = []http.HandlerFunc{pending(config)}
	}
	for _, host := range hosts {
		answers["GET /nodes/"+host+"/qemu"] = []http.HandlerFunc{data(list)}
	}
	answers["GET /cluster/resources"], answers["GET /nodes"] = []http.HandlerFunc{data(list)}, []http.HandlerFunc{data([]any{})}
	off(t, answers, func(t *testing.T, c *proxmox.Client, _ *wireless) {
		for host, want := range map[string]int{"": 100, "pve1": 100, "pve2": 101, "pve3": 103, "pve9": 100} {
			vm, err := c.Templates.Get(t.Context(), owner, host, "tmpl")
			require.NoError(t, err)
			assert.Equal(t, want, vm.VMID, host)
		}
		vm, err := c.Templates.Get(t.Context(), owner, "", "none")
		require.NoError(t, err)
		assert.Nil(t, vm)
	})
}

// A name is ours, another's, or both: then which of them is meant is known.
func TestWhoHasAName(t *testing.T) {
	vms := map[int]map[string]string{
		100: marked(100, "name", "ours"), 101: {"name": "theirs"}, 102: marked(102, "name", "both"), 103: {"name": "both"}, 104: {"name": "two"}, 105: {"name": "two"},
	}
	off(t, vmsOf(vms, nil), func(t *testing.T, c *proxmox.Client, _ *wireless) {
		for name, tt := range map[string]struct {
			conflict, namesake int
			err                string
		}{
			"ours": {}, "none": {}, "theirs": {conflict: 101, namesake: 101}, "both": {namesake: 103}, "two": {conflict: -1, err: "proxmox: VMs 104 and 105 are all called two and do not belong to the cluster: rename all but the one to adopt"},
		} {
			all, err := c.VMs.NameConflicts(t.Context(), owner, []string{"ours", name, "none"})
			require.NoError(t, err)
			assert.Equal(t, tt.conflict != 0, len(all) == 1, name)
			conflict := c.VMs.NameConflict(t.Context(), owner, name)
			assert.Equal(t, tt.conflict != 0, conflict != nil, name)
			if tt.conflict > 0 {
				assert.Equal(t, &proxmox.ConflictError{Name: name, Owner: owner, Host: "pve1", VMID: tt.conflict, Reason: "does not carry the tag " + owner}, all[0])
			}
			other, err := c.VMs.GetForeign(t.Context(), owner, name)
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, tt.namesake != 0, other != nil, name)
			if other != nil {
				assert.Equal(t, tt.namesake, other.VMID)
			}
		}
	})
	vms[101]["name"] = "theirs"
	answers := vmsOf(vms, map[string][]http.HandlerFunc{"GET /nodes/pve1/qemu/101/pending": {says(500, "broken")}})
	off(t, answers, func(t *testing.T, c *proxmox.Client, _ *wireless) {
		_, err := c.VMs.NameConflicts(t.Context(), owner, []string{"theirs"})
		require.ErrorContains(t, err, "broken")
		_, err = c.Templates.Get(t.Context(), owner, "", "theirs")
		require.ErrorContains(t, err, "broken")
		_, err = c.VMs.GetForeign(t.Context(), owner, "theirs")
		assert.ErrorContains(t, err, "broken")
	})
}

// A mapping is made, seen, and fits; else it is said which of these is not so.
func TestAMappingThatIsMade(t *testing.T) {
	device := pci.MappedDevice{Host: "pve1", Address: must(proxmox.ParsePCIAddress("41:00")), ID: "10de:20f1", IOMMUGroup: 25}
	other := device
	other.Host = "pve2"
	const line = "node=pve1,path=0000:41:00,id=10de:20f1,iommugroup=25"
	state := func(problems ...string) http.HandlerFunc {
		checks := []any{}
		for _, p := range problems {
			checks = append(checks, entry{"message": p, "severity": "error"})
		}
		return data([]any{entry{"id": "gpu", "description": "d\n", "map": []string{line}, "checks": checks}})
	}
	none := data([]any{})
	for name, tt := range map[string]struct {
		looks   []http.HandlerFunc
		devices []pci.MappedDevice
		want    string
		did     []string
	}{
		"there":        {[]http.HandlerFunc{state()}, nil, "", nil},
		"made":         {[]http.HandlerFunc{none, state()}, nil, "", []string{`POST /cluster/mapping/pci {"description":"d","id":"gpu","map":["` + line + `"]}`}},
		"not seen":     {[]http.HandlerFunc{none}, nil, "mapping gpu was created, but the token cannot see it: it lacks Mapping.Use or Mapping.Audit on /mapping/pci/gpu", []string{`POST /cluster/mapping/pci {"description":"d","id":"gpu","map":["` + line + `"]}`}},
		"does not fit": {[]http.HandlerFunc{state("old"), state("a", "b")}, nil, "mapping gpu does not fit the hardware of pve1: a; b", []string{`PUT /cluster/mapping/pci/gpu {"description":"d","map":["` + line + `"]}`}},
		"two hosts": {[]http.HandlerFunc{none, state(), state("far")}, []pci.MappedDevice{device, device, other}, "mapping gpu does not fit the hardware of pve2: far",
			[]string{`POST /cluster/mapping/pci {"description":"d","id":"gpu","map":["` + line + `","` + line + `","` + strings.Replace(line, "pve1", "pve2", 1) + `"]}`}},
		"hidden": {[]http.HandlerFunc{says(403, "hidden")}, nil, "hidden", nil},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string][]http.HandlerFunc{"GET /cluster/mapping/pci": tt.looks, "POST /cluster/mapping/pci": {data(nil)}, "PUT /cluster/mapping/pci/gpu": {data(nil)}}
			off(t, answers, func(t *testing.T, c *proxmox.Client, w *wireless) {
				m := pci.Mapping{ID: "gpu", Description: "d", Devices: []pci.MappedDevice{device}}
				if tt.devices != nil {
					m.Devices = tt.devices
				}
				err := c.PCI.EnsureMapping(t.Context(), m)
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				assert.Equal(t, tt.did, w.changes())
			})
		})
	}
	// However long it takes to see who uses it, it is read once before it is written, and once after.
	slow := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Minute)
		data([]any{})(w, r)
	}
	off(t, map[string][]http.HandlerFunc{"GET /cluster/mapping/pci": {state("old"), state()}, "PUT /cluster/mapping/pci/gpu": {data(nil)}, "GET /cluster/resources": {slow}}, func(t *testing.T, c *proxmox.Client, w *wireless) {
		require.NoError(t, c.PCI.EnsureMapping(t.Context(), pci.Mapping{ID: "gpu", Description: "d", Devices: []pci.MappedDevice{device}}))
		assert.Len(t, w.changes(), 1)
		assert.Equal(t, 2, w.asked("GET /cluster/mapping/pci"))
	})
	c := serve(t, nil).dial(t)
	require.ErrorContains(t, c.PCI.EnsureMapping(t.Context(), pci.Mapping{ID: "1"}), `mapping id "1": write a letter, then letters`)
	require.EqualError(t, c.PCI.EnsureMapping(t.Context(), pci.Mapping{ID: "gpu"}), "mapping gpu has no devices")
}

// A device is given when its mapping is there, and fits.
func TestAttachChecks(t *testing.T) {
	const line = "node=pve1,path=0000:41:00,id=10de:20f1,iommugroup=25"
	mapping := func(line string, problems ...any) http.HandlerFunc {
		return data([]any{entry{"id": "gpu", "map": []string{line}, "checks": problems}})
	}
	for name, tt := range map[string]struct {
		config  map[string]string
		device  proxmox.HostPCI
		mapping http.HandlerFunc
		want    string
		set     string
	}{
		"given":        {map[string]string{"machine": "q35", "hostpci0": "mapping=b"}, proxmox.HostPCI{Mapping: "gpu", PCIe: true}, mapping(line), "", `"hostpci1":"mapping=gpu,pcie=1,rombar=0"`},
		"in a slot":    {map[string]string{"machine": "q35"}, proxmox.HostPCI{Mapping: "gpu", Slot: "hostpci5"}, mapping(line), "", `"hostpci5":"mapping=gpu,rombar=0"`},
		"has it":       {map[string]string{"hostpci0": "mapping=gpu"}, proxmox.HostPCI{Mapping: "gpu"}, mapping(line), "", ""},
		"has it there": {map[string]string{"hostpci3": "mapping=gpu"}, proxmox.HostPCI{Mapping: "gpu", Slot: "hostpci3"}, mapping(line), "", ""},
		"has it elsewhere": {map[string]string{"hostpci0": "mapping=gpu"}, proxmox.HostPCI{Mapping: "gpu", Slot: "hostpci3"}, mapping(line),
			"mapping gpu has no device left on pve1: VM 100 (wk1) has one by mapping gpu as hostpci0", ""},
		"no mapping":        {nil, proxmox.HostPCI{Mapping: "gpu"}, data([]any{}), "mapping gpu does not exist, or the token may not see it", ""},
		"another host's":    {nil, proxmox.HostPCI{Mapping: "gpu"}, mapping(strings.Replace(line, "pve1", "pve2", 1)), "mapping gpu has no device on pve1, where wk1 (VM 100 on pve1) is", ""},
		"does not fit":      {nil, proxmox.HostPCI{Mapping: "gpu"}, mapping(line, entry{"message": "changed"}), "mapping gpu does not fit the hardware of pve1: changed", ""},
		"no PCIe":           {map[string]string{"machine": "pc"}, proxmox.HostPCI{Mapping: "gpu", PCIe: true}, mapping(line), "is of machine type pc; PCIe wants q35", ""},
		"no PCIe is wanted": {map[string]string{"machine": "pc"}, proxmox.HostPCI{Mapping: "gpu"}, mapping(line), "", `"hostpci0":"mapping=gpu,rombar=0"`},
		"hidden":            {nil, proxmox.HostPCI{Mapping: "gpu"}, says(403, "hidden"), "hidden", ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := marked(100, "name", "wk1", "digest", "d")
			for k, v := range tt.config {
				config[k] = v
			}
			off(t, vmsOf(map[int]map[string]string{100: config}, map[string][]http.HandlerFunc{
				"GET /nodes/pve1/hardware/pci": {data([]any{entry{"id": "0000:41:00.0", "class": "0x030200", "vendor": "0x10de", "device": "0x20f1", "iommugroup": 25}})},
				"GET /cluster/mapping/pci":     {tt.mapping}, "PUT /nodes/pve1/qemu/100/config": {data(nil)},
			}), func(t *testing.T, c *proxmox.Client, w *wireless) {
				vm, err := c.VMs.GetByID(t.Context(), 100)
				require.NoError(t, err)
				err = proxmox.AttachGPU(t.Context(), vm, tt.device)
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				if tt.set == "" {
					assert.Empty(t, w.changes())
					return
				}
				require.Len(t, w.changes(), 1)
				assert.Contains(t, w.changes()[0], tt.set)
				assert.Contains(t, w.changes()[0], `"digest":"d"`)
				require.NoError(t, proxmox.DetachGPU(t.Context(), vm, "hostpci9"), "nothing is there")
				assert.Len(t, w.changes(), 1)
			})
		})
	}
}

// A password is right, wrong, or not enough.
func TestLogins(t *testing.T) {
	for name, tt := range map[string]struct {
		ticket   http.HandlerFunc
		password func(context.Context) (secret.Value, error)
		want     string
		set      int
	}{
		"right":           {ticket: data(entry{"ticket": "t", "CSRFPreventionToken": "c"}), set: 1},
		"wrong":           {ticket: says(401, "no"), want: "proxmox: Proxmox does not accept root@pam with this password"},
		"broken":          {ticket: says(500, "broken"), want: "broken"},
		"second factor":   {ticket: data(entry{"ticket": "t", "CSRFPreventionToken": "c", "NeedTFA": 1}), want: "root@pam has a second factor, which is not supported"},
		"second, by name": {ticket: data(entry{"ticket": "PVE:!tfa!x", "CSRFPreventionToken": "c"}), want: "root@pam has a second factor, which is not supported\n  run on pve1: qm set 100 --hugepages 1024"},
		"no ticket":       {ticket: data(entry{"CSRFPreventionToken": "c"}), want: "Proxmox accepted root@pam but sent no ticket"},
		"no guard":        {ticket: data(entry{"ticket": "t"}), want: "Proxmox accepted root@pam but sent no ticket"},
		"no JSON":         {ticket: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, want: "proxmox: POST /access/ticket: the answer is not from Proxmox VE"},
		"none":            {password: func(context.Context) (secret.Value, error) { return secret.Value{}, context.Canceled }, want: "password of root@pam: context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			ask := tt.password
			if ask == nil {
				ask = func(context.Context) (secret.Value, error) { return secret.New("p"), nil }
			}
			config := marked(100, "name", "wk1", "digest", "d", "bios", "seabios", "serial0", "socket", "agent", "1", "balloon", "0", "cpu", "host", "cores", "1")
			offWith(t, vmsOf(map[int]map[string]string{100: config}, map[string][]http.HandlerFunc{
				"POST /access/ticket": {tt.ticket}, "PUT /nodes/pve1/qemu/100/config": {func(w http.ResponseWriter, r *http.Request) {
					assert.Equal(t, "c", r.Header.Get("CSRFPreventionToken"))
					assert.Equal(t, "PVEAuthCookie=t", r.Header.Get("Cookie"))
					data(nil)(w, r)
				}},
				"GET /nodes/pve1/qemu/100/pending": {pending(config), pending(marked(100, "name", "wk1", "digest", "e", "serial0", "socket", "agent", "1", "balloon", "0", "cpu", "host", "cores", "1", "hugepages", "1024"))},
			}), proxmox.Config{RootUser: "root@pam", RootPassword: ask}, func(t *testing.T, c *proxmox.Client, w *wireless) {
				vm, err := c.VMs.GetByID(t.Context(), 100)
				require.NoError(t, err)
				err = c.VMs.Shape(t.Context(), proxmox.VMSpec{Name: "wk1", Host: "pve1", Owner: owner, Cores: 1, Memory: 2 * proxmox.GiB, Hugepages: "1024"}, vm)
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				assert.Equal(t, tt.set, w.asked("PUT /nodes/pve1/qemu/100/config"), "%v", w.changes())
			})
		})
	}
}

// A VM that a list shows as what it was seen as is read once; of any other it is asked
// first what is at work on it, and whether it runs.
func TestWhatIsRemovedIsReadOnce(t *testing.T) {
	upid := workerOf("qmdestroy", "100")
	config := marked(100, "name", "wk1")
	plain := func(changes entry) entry {
		out := entry{"type": "qemu", "vmid": 100, "node": "pve1", "name": "wk1", "status": "stopped", "tags": config["tags"]}
		for k, v := range changes {
			out[k] = v
		}
		return out
	}
	for name, tt := range map[string]struct {
		list   entry
		nodes  http.HandlerFunc // of the host itself
		asked  int
		locked string
	}{
		"plain":         {list: plain(nil)},
		"another VMID":  {list: plain(entry{"vmid": 101}), asked: 1},
		"a container":   {list: plain(entry{"type": "lxc"}), asked: 1},
		"elsewhere":     {list: plain(entry{"node": "pve2"}), asked: 1},
		"renamed":       {list: plain(entry{"name": "wk2"}), asked: 1},
		"locked":        {list: plain(entry{"lock": "backup"}), asked: 1},
		"was locked":    {list: plain(nil), locked: "backup", asked: 1},
		"without power": {list: plain(entry{"status": ""}), asked: 1},
		"silent":        {list: plain(nil), nodes: says(595, "away"), asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			own := tt.nodes
			if own == nil {
				own = data([]any{tt.list})
			}
			off(t, map[string][]http.HandlerFunc{
				"GET /cluster/resources": {data([]any{plain(nil)}), data([]any{tt.list})}, "GET /nodes/pve1/qemu": {data([]any{plain(nil)}), own}, "GET /nodes/pve2/qemu": {data([]any{tt.list})},
				"GET /nodes/pve1/qemu/100/pending": {pending(config)}, "GET /nodes/pve1/qemu/100/status/current": {data(entry{"status": "stopped"})},
				"DELETE /nodes/pve1/qemu/100": {data(upid)}, "GET /nodes/pve1/tasks": {data([]any{}), taskEnd(upid, "OK")},
			}, func(t *testing.T, c *proxmox.Client, w *wireless) {
				vm, err := c.VMs.GetByID(t.Context(), 100)
				require.NoError(t, err)
				vm.Owner, vm.Locked = owner, tt.locked
				time.Sleep(time.Minute)
				require.NoError(t, c.VMs.Remove(t.Context(), vm))
				assert.Equal(t, tt.asked, w.asked("GET /nodes/pve1/qemu/100/status/current"), "%v", w.calls)
				assert.Equal(t, 1, w.asked("DELETE "))
			})
		})
	}
}

// A template whose disks are no bases yet is made whole, disk by disk.
func TestATemplateThatIsHalfOne(t *testing.T) {
	upid := workerOf("qmtemplate", "100")
	const post = "POST /nodes/pve1/qemu/100/template"
	disks := func(first, second string) http.HandlerFunc {
		return pending(marked(100, "name", "tmpl", "template", "1", "scsi0", "thin:"+first+"-100-disk-0,size=1G", "efidisk0", "thin:"+second+"-100-disk-1,size=4M"))
	}
	busy := says(500, "can't lock file '/x' - got timeout")
	storages := data([]any{entry{"storage": "thin", "type": "lvmthin"}, entry{"storage": "thick", "type": "lvm"}})
	for name, tt := range map[string]struct {
		post, look []http.HandlerFunc
		did        []string
		want       string
	}{
		"never":          {nil, []http.HandlerFunc{pending(marked(100, "name", "tmpl", "template", "1", "scsi0", "thick:vm-100-disk-0,size=1G"))}, nil, ""},
		"whole":          {nil, []http.HandlerFunc{disks("base", "base")}, nil, ""},
		"one":            {[]http.HandlerFunc{data(upid)}, []http.HandlerFunc{disks("vm", "base")}, []string{`{"disk":"scsi0"}`}, ""},
		"both":           {[]http.HandlerFunc{data(upid)}, []http.HandlerFunc{disks("vm", "vm")}, []string{`{"disk":"efidisk0"}`, `{"disk":"scsi0"}`}, ""},
		"done after all": {[]http.HandlerFunc{busy}, []http.HandlerFunc{disks("vm", "base"), disks("base", "base")}, []string{`{"disk":"scsi0"}`}, ""},
		"again":          {[]http.HandlerFunc{busy, data(upid)}, []http.HandlerFunc{disks("vm", "base")}, []string{`{"disk":"scsi0"}`, `{"disk":"scsi0"}`}, ""},
		"refused":        {[]http.HandlerFunc{says(403, "no")}, []http.HandlerFunc{disks("vm", "base")}, []string{`{"disk":"scsi0"}`}, "convert tmpl (VM 100 on pve1): "},
		"hidden":         {[]http.HandlerFunc{busy}, []http.HandlerFunc{disks("vm", "base"), says(403, "hidden")}, []string{`{"disk":"scsi0"}`}, "hidden"},
	} {
		t.Run(name, func(t *testing.T) {
			off(t, map[string][]http.HandlerFunc{
				post: tt.post, "GET /nodes/pve1/qemu/100/pending": tt.look, "GET /nodes/pve1/storage": {storages}, "GET /nodes/pve1/qemu/100/status/current": {data(entry{"status": "stopped"})}, "GET /nodes/pve1/tasks": {taskEnd(upid, "OK")},
			}, func(t *testing.T, c *proxmox.Client, w *wireless) {
				err := c.Templates.Convert(t.Context(), &proxmox.VM{Name: "tmpl", Host: "pve1", VMID: 100})
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				var did []string
				for _, call := range w.changes() {
					did = append(did, strings.TrimPrefix(call, post+" "))
				}
				assert.Equal(t, tt.did, did)
			})
		})
	}
}

// A VM becomes a template when it is off, without its seed, also when an answer is lost.
func TestAVMBecomesATemplate(t *testing.T) {
	upid := workerOf("qmtemplate", "100")
	const config, post = "POST /nodes/pve1/qemu/100/config", "POST /nodes/pve1/qemu/100/template"
	vm := func(more ...string) http.HandlerFunc {
		return pending(marked(100, append([]string{"name", "tmpl"}, more...)...))
	}
	seeded, bare, made := vm("ide2", "local:iso/a.iso,media=cdrom"), vm(), vm("template", "1")
	busy := says(500, "can't lock file '/x' - got timeout")
	for name, tt := range map[string]struct {
		config, post http.HandlerFunc
		looks        []http.HandlerFunc
		status       string
		did          []string
		want         string
	}{
		"with a seed":    {data(upid), data(upid), []http.HandlerFunc{seeded}, "stopped", []string{config, post}, ""},
		"without one":    {nil, data(upid), []http.HandlerFunc{bare}, "stopped", []string{post}, ""},
		"seed lost":      {busy, data(upid), []http.HandlerFunc{seeded, bare}, "stopped", []string{config, post}, ""},
		"template lost":  {nil, busy, []http.HandlerFunc{bare, made}, "stopped", []string{post}, ""},
		"never":          {nil, busy, []http.HandlerFunc{bare}, "stopped", []string{post, post, post, post, post, post}, "convert tmpl (VM 100 on pve1): "},
		"seed refused":   {says(403, "no"), nil, []http.HandlerFunc{seeded}, "stopped", []string{config}, "take the seed out of tmpl (VM 100 on pve1): "},
		"seed hidden":    {busy, nil, []http.HandlerFunc{seeded, says(403, "hidden")}, "stopped", []string{config}, "hidden"},
		"runs":           {nil, nil, []http.HandlerFunc{bare}, "running", nil, "tmpl (VM 100 on pve1) runs: a template is made of a VM that is off"},
		"hidden":         {nil, nil, []http.HandlerFunc{says(403, "hidden")}, "stopped", nil, "hidden"},
		"template hides": {nil, busy, []http.HandlerFunc{bare, says(403, "hidden")}, "stopped", []string{post}, "hidden"},
	} {
		t.Run(name, func(t *testing.T) {
			off(t, map[string][]http.HandlerFunc{
				config: {tt.config}, post: {tt.post}, "GET /nodes/pve1/qemu/100/pending": tt.looks, "GET /nodes/pve1/qemu/100/status/current": {data(entry{"status": tt.status})}, "GET /nodes/pve1/tasks": {taskEnd(upid, "OK")},
			}, func(t *testing.T, c *proxmox.Client, w *wireless) {
				one := &proxmox.VM{Name: "tmpl", Host: "pve1", VMID: 100, Seed: "x"}
				err := c.Templates.Convert(t.Context(), one)
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				assert.Equal(t, tt.want == "", one.Template && one.Seed == "")
				var did []string
				for _, call := range w.changes() {
					what, _, _ := strings.Cut(call, " {")
					did = append(did, what)
				}
				assert.Equal(t, tt.did, did)
			})
		})
	}
}

// The end of a context ends a wait for an earlier run, and what was waited for is not over.
func TestAnEarlierRunOutlastsTheContext(t *testing.T) {
	ours := workerOf("qmclone", "900")
	running := data([]any{taskEntry(ours, "")})
	off(t, map[string][]http.HandlerFunc{"GET /nodes/pve1/tasks": {running}}, func(t *testing.T, c *proxmox.Client, _ *wireless) {
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := c.WaitForEarlierTasks(ctx, "pve1")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
	free, locked := marked(100, "name", "wk1"), marked(100, "name", "wk1", "lock", "backup")
	off(t, vmsOf(map[int]map[string]string{100: locked}, map[string][]http.HandlerFunc{
		"GET /nodes/pve1/tasks": {data([]any{}), data([]any{}), data([]any{taskEntry(workerOf("vzdump", "100"), "")})}, "GET /nodes/pve1/qemu/100/pending": {pending(locked)},
	}), func(t *testing.T, c *proxmox.Client, _ *wireless) {
		vm, err := c.VMs.GetByID(t.Context(), 100)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, c.VMs.Remove(ctx, vm), context.DeadlineExceeded)
		assert.Equal(t, free["tags"], strings.Join(vm.Tags, ";"))
	})
}

// An answer is as good as new for three seconds, and a template for a minute.
func TestHowLongAnAnswerIsKept(t *testing.T) {
	off(t, map[string][]http.HandlerFunc{"GET /nodes": {data([]any{})}}, func(t *testing.T, c *proxmox.Client, w *wireless) {
		for _, tt := range []struct {
			after time.Duration
			asked int
		}{{0, 1}, {3*time.Second - 1, 1}, {1, 2}, {3 * time.Second, 3}} {
			time.Sleep(tt.after)
			_, err := c.Hosts.List(t.Context())
			require.NoError(t, err)
			assert.Equal(t, tt.asked, w.asked("GET /nodes"))
		}
	})
}

// What is not a PCI address is not a device, and what follows it is.
func TestDevicesOfAHost(t *testing.T) {
	c := serve(t, map[string]http.HandlerFunc{"GET /nodes/pve1/hardware/pci": func(w http.ResponseWriter, r *http.Request) {
		assert.True(t, r.URL.Query().Has("pci-class-blacklist"))
		data([]any{
			entry{"id": "odd"}, entry{"id": "0000:41:00.0", "class": "0x030200", "vendor": "0x10DE", "device": "0x20b2", "subsystem_vendor": "0x10de", "subsystem_device": "0x1463", "iommugroup": 0, "device_name": "A", "vendor_name": "N"},
			entry{"id": "0000:01:00.0", "class": "0x020000", "vendor": "0x8086", "device": "0x1", "subsystem_vendor": "0x8086"}, entry{"id": "0000:01:00.1", "subsystem_device": "0x1"},
		})(w, r)
	}}).dial(t)
	all, err := c.PCI.Devices(t.Context(), "pve1")
	require.NoError(t, err)
	assert.Equal(t, []pci.Function{
		{Address: must(proxmox.ParsePCIAddress("01:00.0")), Class: "020000", Vendor: "8086", Device: "1", IOMMUGroup: -1},
		{Address: must(proxmox.ParsePCIAddress("01:00.1")), IOMMUGroup: -1},
		{Address: must(proxmox.ParsePCIAddress("41:00.0")), Class: "030200", Vendor: "10de", Device: "20b2", Subsystem: "10de:1463", IOMMUGroup: 0, VendorName: "N", Name: "A"},
	}, all)
	assert.Equal(t, "10de:20b2", all[2].ID())
}

// A list that names nothing but a host's other VMs, or one without a name that turns out
// to be another's, says nothing of ours.
func TestNamesThatAreNotYet(t *testing.T) {
	vms := map[int]map[string]string{100: {"name": "VM 100"}, 101: marked(101, "name", "wk1")}
	answers := vmsOf(vms, map[string][]http.HandlerFunc{"GET /nodes/pve1/qemu/100/pending": {pending(map[string]string{"name": "other"})}})
	off(t, answers, func(t *testing.T, c *proxmox.Client, _ *wireless) {
		vm, err := c.VMs.Get(t.Context(), owner, "wk1")
		require.NoError(t, err)
		require.NotNil(t, vm)
		require.NoError(t, c.VMs.NameConflict(t.Context(), owner, "none"))
		other, err := c.VMs.GetForeign(t.Context(), owner, "none")
		require.NoError(t, err)
		assert.Nil(t, other)
	})
}

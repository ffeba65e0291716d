package pvesim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/pvesim/guest"
)

// What was once asked of real Proxmox VE daemons, and what they answered.
const transcripts = "../../../shared/data/pve9-transcripts.jsonl"

type exchange struct {
	Method, Path, Auth, Reason, Body string
	Params                           map[string]any
	JSONBody                         bool `json:"json_body"`
	Status                           int
	number                           int
}

// tinyImage is a qcow2 file whose header says 64 MiB.
func tinyImage() []byte {
	b := make([]byte, 196616)
	copy(b, "QFI\xfb\x00\x00\x00\x03")
	b[28] = 0x04
	return b
}

// recordedHost is the host on which the transcripts were made.
func recordedHost() Model {
	device := func(address, id, class string, group int, sub string) PCIDevice {
		return PCIDevice{Address: address, ID: id, Class: class, Group: group, Subsystem: sub, Vendor: "V", Name: "N"}
	}
	h := Host{Name: "pve1", CPUs: 2, NUMANodes: 1, Memory: 8 * GiB, Bridges: []string{"vmbr0"},
		PCI: []PCIDevice{
			device("0000:00:01.0", "1af4:1045", "ffff00", -1, "1af4:1045"), device("0000:00:02.0", "1af4:1042", "018000", -1, "1af4:1042"),
			device("0000:00:03.0", "1af4:1041", "020000", -1, "1af4:1041"), device("0000:00:04.0", "1af4:1053", "ffff00", -1, "1af4:1053"),
			device("0000:00:05.0", "1af4:1044", "ffff00", -1, "1af4:1044"),
			device("0000:01:00.0", "10de:2684", "030000", 13, "1043:88e2"), device("0000:01:00.1", "10de:22ba", "040300", 13, "1043:88e2"),
			device("0000:02:00.0", "10de:20b5", "030200", 14, "10de:1533"), device("0000:03:00.0", "10de:2330", "030200", 15, "10de:16c1"),
			device("0000:41:00.0", "10de:2230", "030000", 30, "10de:1459"), device("0000:41:00.1", "10de:1aef", "040300", 30, "10de:1459"),
			device("0000:41:02.0", "8086:1572", "020000", 30, "8086:0000"),
		},
		Storages: []Storage{
			{Name: "local", Type: "dir", Content: []string{"import", "backup", "rootdir", "vztmpl", "images", "iso", "snippets"}, Size: 252 * GiB},
			{Name: "vmdata", Type: "dir", Content: []string{"rootdir", "images"}, Size: 252 * GiB},
		}}
	k3s := strings.Fields("VM.GuestAgent.Audit VM.Config.Disk VM.Config.Memory Datastore.Audit VM.Clone VM.Config.CDROM Mapping.Audit VM.Config.CPU " +
		"VM.GuestAgent.Unrestricted VM.Migrate SDN.Use VM.Config.Cloudinit Sys.Audit VM.Config.Options Pool.Audit Datastore.AllocateSpace VM.PowerMgmt " +
		"VM.Audit Pool.Allocate Datastore.AllocateTemplate Mapping.Use VM.Config.HWType VM.Allocate VM.Config.Network")
	return Model{
		Version: "9.2.11", Hosts: []Host{h}, Roles: []Role{{ID: "K3s", Privs: k3s}},
		Users: []User{{ID: "root@pam", Password: "oracle-root"}, {ID: "nobody@pve", Password: "oracle-nobody"}, {ID: "k3s@pve", Password: "x"}},
		Tokens: []Token{{ID: "root@pam!full", Secret: "11111111-0000-4000-8000-000000000000"},
			{ID: "k3s@pve!full", Secret: "33333333-0000-4000-8000-000000000000"},
			{ID: "k3s@pve!sep", Secret: "44444444-0000-4000-8000-000000000000", PrivSep: true}},
		ACLs: []ACL{{Path: "/", Who: "k3s@pve", Role: "K3s"}},
	}
}

// recordedInternet is the web server that stood beside it.
func recordedInternet(raw string) ([]byte, error) {
	switch {
	case strings.HasPrefix(raw, "http://10.99.0.1:1/"):
		return nil, errors.New("Connecting to 10.99.0.1:1... failed: Connection refused.")
	case strings.HasSuffix(raw, "/img.qcow2"):
		return tinyImage(), nil
	case strings.HasSuffix(raw, "/a.iso"):
		return make([]byte, 65536), nil
	}
	return nil, guest.ErrNotFound
}

// notReplayed are exchanges that cannot be had again, and why.
func notReplayed() map[int]string {
	out := map[int]string{
		68:  "which of four clones comes too late is chance",
		219: "no monitor here",
		272: "a process of the tester's held the lock", 273: "the same", 274: "the same", 275: "the same",
		279: "the same", 280: "the same", 281: "the same", 282: "the same", 283: "the same", 284: "the same",
		285: "no groups here",
		289: "the daemon had been stopped",
		171: "no query-url-metadata here", 172: "the same",
	}
	return out
}

type replay struct {
	*caller
	upids map[string]string // theirs -> ours
	last  exchange
}

func TestReplay(t *testing.T) {
	raw, err := os.ReadFile(transcripts)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("NOT CHECKED AGAINST REAL ANSWERS: %s is missing", transcripts)
	}
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		s := New(recordedHost(), Options{Internet: recordedInternet})
		defer s.Close()
		s.mu.Lock()
		local := s.hosts["pve1"].storages["local"]
		local.putFile("import", "tiny.qcow2", tinyImage())
		local.putFile("import", "miniguest.qcow2", make([]byte, 18298368))
		s.mu.Unlock()
		r := &replay{caller: &caller{t: t, s: s}, upids: map[string]string{}}
		sc := bufio.NewScanner(bytes.NewReader(raw))
		sc.Buffer(nil, 1<<20)
		skipped := 0
		for n := 0; sc.Scan(); n++ {
			var e exchange
			require.NoError(t, json.Unmarshal(sc.Bytes(), &e))
			e.number = n
			if !r.replay(e) {
				skipped++
			}
		}
		t.Logf("%d exchanges not replayed", skipped)
	})
}

// settle waits until nothing runs: the recorder did, but for a salvo of clones.
func (r *replay) settle(e exchange) {
	if strings.HasSuffix(e.Path, "/clone") && strings.HasSuffix(r.last.Path, "/clone") {
		return
	}
	for {
		r.s.mu.Lock()
		busy := slices.ContainsFunc(r.s.order, (*task).running)
		r.s.mu.Unlock()
		if !busy {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (r *replay) replay(e exchange) bool {
	if notReplayed()[e.number] != "" {
		return false
	}
	path, err := url.PathUnescape(e.Path)
	require.NoError(r.t, err)
	for theirs, ours := range r.upids {
		path = strings.ReplaceAll(path, theirs, ours)
	}
	if strings.Contains(e.Path, "UPID%3A") && path == must(url.PathUnescape(e.Path)) && e.Status == 200 {
		return false // of a task whose request was not recorded: an upload
	}
	r.settle(e)
	r.unrecorded(e)
	r.last = e
	got := r.ask(e, path)
	if upid := regexp.MustCompile(`UPID:[^"]*`).FindString(e.Body); upid != "" && strings.HasPrefix(got.text(), "UPID:") {
		r.upids[upid] = got.text()
	}
	r.compare(e, got)
	return true
}

// unrecorded does what was done between the recorded exchanges.
func (r *replay) unrecorded(e exchange) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	switch e.number {
	case 142: // after the uploads
		local := r.s.hosts["pve1"].storages["local"]
		for _, name := range []string{"up.qcow2", "up3.qcow2", "up4.qcow2"} {
			local.putFile("import", name, tinyImage())
		}
		local.putFile("import", "up2.raw", make([]byte, 3))
		local.putFile("iso", "seed_1.iso", make([]byte, 65536))
		local.putFile("iso", "x.iso", make([]byte, 500))
		local.putFile("iso", "x.img", make([]byte, 4096))
	case 310:
		r.s.mappings["pool"] = &mapping{id: "pool", entries: []string{
			"node=pve1,path=0000:02:00.0,id=10de:20b5,iommugroup=14,subsystem-id=10de:1533",
			"node=pve1,path=0000:03:00.0,id=10de:2330,iommugroup=15,subsystem-id=10de:16c1"}}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (r *replay) ask(e exchange, path string) reply {
	path, query, _ := strings.Cut(path, "?")
	target := (&url.URL{Scheme: "https", Host: "pve", Path: "/api2/json" + path}).String()
	if e.Method == "GET" || e.Method == "DELETE" {
		if query != "" {
			q := url.Values{}
			for k, v := range e.Params {
				q.Set(k, fmt.Sprint(v))
			}
			target += "?" + q.Encode()
		}
	}
	var body []byte
	kind := "application/x-www-form-urlencoded"
	if e.Method == "POST" || e.Method == "PUT" {
		if e.JSONBody {
			kind, body = "application/json", must(json.Marshal(e.Params))
		} else {
			form := url.Values{}
			for k, v := range e.Params {
				form.Set(k, strings.ReplaceAll(fmt.Sprint(v), "1b7af784841125887e688254229e282829e17245d0e47fe7280da9b68a30d9e1", checksum("sha256", tinyImage())))
			}
			body = []byte(form.Encode())
		}
	}
	req := must(http.NewRequestWithContext(context.Background(), e.Method, target, bytes.NewReader(body)))
	if body != nil {
		req.Header.Set("Content-Type", kind)
	} else {
		req.Body, req.ContentLength = nil, 0
	}
	r.auth = ""
	if who, ok := strings.CutPrefix(e.Auth, "ticket "); ok {
		r.ticket(req, e, who)
	} else {
		r.auth = e.Auth
	}
	return r.send(req)
}

// ticket puts a session's cookie on a request, or a broken one where the
// recording was refused.
func (r *replay) ticket(req *http.Request, e exchange, who string) {
	id, csrf := "PVE:"+who+":00::broken", ""
	if e.Reason != "Authentication failed!" {
		r.s.mu.Lock()
		for have, t := range r.s.access.tickets {
			if t.user == who {
				id, csrf = have, t.csrf
			}
		}
		r.s.mu.Unlock()
	}
	if e.Reason == "Permission denied - invalid csrf token" {
		csrf = ""
	}
	req.AddCookie(&http.Cookie{Name: "PVEAuthCookie", Value: id})
	req.Header.Set("CSRFPreventionToken", csrf)
}

// Things that differ from run to run.
var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`UPID:[^"\s]*`), "UPID"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "SHA256"},
	{regexp.MustCompile(`\b[0-9a-f]{40}\b`), "SHA1"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`BC:24:11(:[0-9A-F]{2}){3}`), "MAC"},
	{regexp.MustCompile(`creation-qemu=[0-9.]+,ctime=\d+`), "META"},
	{regexp.MustCompile(`PVE:[^"]*|[0-9A-F]{8}:[A-Za-z0-9+/]{20,}`), "TICKET"},
}

func same(s string) string {
	for _, v := range volatile {
		s = v.pattern.ReplaceAllString(s, v.with)
	}
	return s
}

// figures are values that are not compared, only that they are there.
var figures = regexp.MustCompile(`^(pid|pstart|starttime|endtime|ctime|used|avail|total|used_fraction|repoid|netin|netout|uptime|mem|memhost|cpu|` +
	`vendor_name|device_name|subsystem_vendor_name|subsystem_device_name|content|cap|tokenid|nics|digest|qmpstatus|pressure.*|t)$`)

func (r *replay) compare(e exchange, got reply) {
	r.t.Helper()
	name := fmt.Sprintf("#%d %s %s", e.number, e.Method, e.Path)
	if !assert.Equal(r.t, fmt.Sprint(e.Status, " ", same(e.Reason)), fmt.Sprint(got.status, " ", same(got.reason)), name) {
		return
	}
	if e.Body == "" || got.body == "" {
		assert.Equal(r.t, e.Body, got.body, name)
		return
	}
	var want, have any
	require.NoError(r.t, json.Unmarshal([]byte(same(e.Body)), &want), name)
	require.NoError(r.t, json.Unmarshal([]byte(same(got.body)), &have), name)
	if strings.HasSuffix(e.Path, "/log?limit=0") {
		assert.Equal(r.t, lastLine(want), lastLine(have), name)
		return
	}
	if strings.Contains(e.Path, "/tasks?") || e.Path == "/cluster/tasks" {
		return // how many tasks there were is not comparable
	}
	r.differ(name, "", want, have)
}

func lastLine(log any) any {
	lines, _ := log.(map[string]any)["data"].([]any)
	if len(lines) == 0 {
		return nil
	}
	return lines[len(lines)-1].(map[string]any)["t"]
}

func (r *replay) differ(name, path string, want, have any) {
	r.t.Helper()
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !assert.True(r.t, ok, "%s: %s is %T", name, path, have) {
			return
		}
		if path != ".data" || !strings.HasPrefix(name, "#307") {
			delete(want, "subsystem_device_name")
			delete(have, "subsystem_vendor_name")
			delete(want, "subsystem_vendor_name")
		}
		assert.ElementsMatch(r.t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(have)), "%s: keys of %s", name, path)
		for k := range want {
			if _, there := have[k]; there && !figures.MatchString(k) {
				r.differ(name, path+"."+k, want[k], have[k])
			}
		}
	case []any:
		have, _ := have.([]any)
		r.list(name, path, want, have)
	default:
		assert.Equal(r.t, want, have, "%s: %s", name, path)
	}
}

// list compares lists whose order Perl leaves to chance.
func (r *replay) list(name, path string, want, have []any) {
	r.t.Helper()
	id := func(v any) string {
		m, _ := v.(map[string]any)
		for _, k := range []string{"id", "key", "volid", "storage", "vmid"} {
			if x, ok := m[k]; ok {
				return fmt.Sprint(x)
			}
		}
		return fmt.Sprint(v)
	}
	byID := func(a, b any) int { return strings.Compare(id(a), id(b)) }
	slices.SortFunc(want, byID)
	slices.SortFunc(have, byID)
	if !assert.Len(r.t, have, len(want), "%s: %s: %v", name, path, have) {
		return
	}
	for i := range want {
		r.differ(name, path+"["+id(want[i])+"]", want[i], have[i])
	}
}

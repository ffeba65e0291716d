package trial_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/internal/trial"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const file = `name: my-trial
proxmox: {endpoint: "https://pve1:8006", token: root@pam!cluster, secret: "env:NONE", insecure: true, host: pve1}
network: {prefix: 192.168.1.0/24, gateway: 192.168.1.1}
defaults: {storage: vmdata}
pools:
  server: {role: server, count: 1, addresses: [192.168.1.61]}
  worker: {count: 2, addresses: [192.168.1.71-192.168.1.72], cores: 2, memory: 4GiB}
`

// site is a simulated world for trials.
type site struct {
	t      *testing.T
	sim    *pvesim.Sim
	kube   *kubesim.Sim
	dir    string
	signer ssh.Signer

	mu    sync.Mutex
	asked map[string]int
	said  strings.Builder
	begin func(step string) // called for every step that begins; may be nil
	look  func()            // before every plan; may be nil
}

func newSite(t *testing.T) *site {
	w := &site{t: t, kube: &kubesim.Sim{}, dir: t.TempDir(), asked: map[string]int{}}
	w.sim = pvesim.New(pvesim.OneGPU(), pvesim.Options{Kubernetes: w.kube})
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	w.signer, err = ssh.ParseSigner(private)
	require.NoError(t, err)
	return w
}

func (w *site) close() {
	w.sim.Close()
	require.NoError(w.t, w.kube.Close())
}

func (w *site) Open(ctx context.Context, spec *spec.Spec) (*cluster.Cluster, func(), error) {
	id, token := w.sim.Token()
	pve, err := proxmox.Dial(ctx, proxmox.Config{
		Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: &http.Client{Transport: w.sim.Client().Transport},
		Wrap: func(next http.RoundTripper) http.RoundTripper { return counted{w, next} },
	})
	if err != nil {
		return nil, nil, err
	}
	c, err := cluster.New(spec, cluster.Backend{Proxmox: pve, Signers: []ssh.Signer{w.signer}, Dial: w.sim.Network().Dial, Dir: w.dir})
	if err != nil {
		return nil, nil, err
	}
	return c, c.Close, nil
}

func (w *site) Run(ctx context.Context, g *converge.Graph, listen func(converge.Event)) (*converge.Report, error) {
	return g.Run(ctx, listen)
}

func (w *site) Plan(ctx context.Context, g *converge.Graph) (*converge.Plan, error) {
	if w.look != nil {
		w.look()
	}
	return g.Plan(ctx)
}

func (w *site) Requests() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.asked)
}

func (w *site) Printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	w.said.WriteString(line + "\n")
	if name, _, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && w.begin != nil {
		w.begin(name)
	}
}

type counted struct {
	w    *site
	next http.RoundTripper
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.w.mu.Lock()
	c.w.asked[r.Method]++
	c.w.mu.Unlock()
	return c.next.RoundTrip(r)
}

func parse(t *testing.T, yaml string) *spec.Spec {
	t.Helper()
	spec, err := cluster.Parse("cluster.yaml", []byte(yaml))
	require.NoError(t, err)
	return spec
}

func (w *site) try(from string) (*trial.Record, error) {
	w.t.Helper()
	way, err := trial.New(parse(w.t, file), from)
	require.NoError(w.t, err)
	return way.Run(w.t.Context(), w)
}

// names lists what is on the host.
func (w *site) names() (names []string) {
	for _, vm := range w.sim.VMs() {
		names = append(names, vm.Name)
	}
	return names
}

// edit changes a machine as somebody in the web interface does.
func (w *site) edit(vmid int, to url.Values) {
	id, token := w.sim.Token()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPut, fmt.Sprintf("https://pve1:8006/api2/json/nodes/pve1/qemu/%d/config", vmid), strings.NewReader(to.Encode()))
	require.NoError(w.t, err)
	r.Header.Set("Authorization", "PVEAPIToken="+id+"="+token)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := w.sim.Client().Do(r)
	require.NoError(w.t, err)
	require.NoError(w.t, answer.Body.Close())
	require.Equal(w.t, http.StatusOK, answer.StatusCode)
}

// Every step is recorded, the plan after each is as it has to be, and nothing is left.
func TestTheWholeWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		defer w.close()
		before := w.names()
		seen := map[string][]string{} // what is on the host when a step begins
		worker := map[string]string{} // its memory and its second disk's size then
		w.begin = func(step string) {
			seen[step] = w.names()
			for _, vm := range w.sim.VMs() {
				if vm.Name == "worker2" {
					_, size, _ := strings.Cut(vm.Config["scsi1"], "size=")
					worker[step] = vm.Config["memory"] + " " + size
				}
			}
		}
		spec := parse(t, file)
		way, err := trial.New(spec, "")
		require.NoError(t, err)
		record, err := way.Run(t.Context(), w)
		require.NoError(t, err, "%s", record.Markdown())

		var names []string
		requests := map[string]int{}
		for _, s := range record.Steps {
			names = append(names, s.Name)
			assert.Empty(t, s.Failed)
			assert.NotEmpty(t, s.What)
			for _, of := range []map[string]int{s.Requests, s.PlanRequests} {
				for method, n := range of {
					requests[method] += n
				}
			}
			assert.Positive(t, s.PlanRequests["GET"], s.Name)
			switch s.Name {
			case "check", "plan":
				assert.Contains(t, s.Plan, "to change", s.Name)
			default:
				assert.Regexp(t, `^nothing: \d+ up to date$`, s.Plan, s.Name)
				assert.Positive(t, s.Took, s.Name)
			}
			for method := range s.PlanRequests {
				assert.Equal(t, "GET", method, "a plan changes nothing")
			}
		}
		assert.Equal(t, trial.Steps(), names)
		assert.Equal(t, w.Requests(), requests, "every request belongs to a step")
		assert.Equal(t, before, w.names(), "nothing is left")
		assert.Equal(t, before, seen["up"], "nothing is made before")
		assert.Subset(t, seen["remove"], []string{"server1", "worker1", "worker2"})
		assert.NotContains(t, seen["down"], "worker2")
		assert.Contains(t, seen["down"], "worker1")
		assert.Equal(t, map[string]string{"again": "4096 ", "memory": "4096 ", "disk": "5120 ", "grow": "5120 1G,ssd=1", "remove": "5120 2G,ssd=1"}, worker)
		assert.Equal(t, parse(t, file), spec, "the file stays as it is")
		assert.Equal(t, "9.", record.Proxmox[:2])

		var back struct{ Steps []map[string]any }
		data, err := json.Marshal(record)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &back))
		require.Len(t, back.Steps, len(names))
		assert.Equal(t, time.Duration(record.Steps[2].Took).Round(time.Millisecond).Seconds(), back.Steps[2]["seconds"])
		assert.Equal(t, len(names)+2, strings.Count(record.Markdown(), "\n| "), record.Markdown())
	})
}

// Whatever step something fails in stops and describes it, and the way goes on from there.
func TestAFailureStopsTheWay(t *testing.T) {
	mine := share.Start(t, "steps that fail")
	for i, name := range trial.Steps() {
		if !mine.Next() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSite(t)
				defer w.close()
				before := w.names()
				var fault *pvesim.Fault
				w.begin = func(step string) {
					if step == name && fault == nil {
						fault = w.sim.Fail(pvesim.Rule{Path: `.*`, Times: -1, Status: 500, Message: "the disk is on fire"})
					}
				}
				record, err := w.try("")
				require.ErrorContains(t, err, name+": ")
				assert.ErrorContains(t, err, "the disk is on fire")
				require.Len(t, record.Steps, i+1, "it stops there")
				assert.Contains(t, record.Steps[i].Failed, "the disk is on fire")
				assert.Contains(t, record.Markdown(), "FAILED: ")
				for _, s := range record.Steps[:i] {
					assert.Empty(t, s.Failed, s.Name)
				}

				fault.Remove()
				record, err = w.try(name)
				require.NoError(t, err, "%s", record.Markdown())
				assert.Len(t, record.Steps, len(trial.Steps())-i)
				assert.Equal(t, before, w.names(), "nothing is left")
			})
		})
	}
}

// What a plan after a step still wants is a failure too, although the step was done.
func TestAPlanThatIsNotEmptyStopsTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		defer w.close()
		w.begin = func(step string) {
			if step == "again" { // a change by hand, between two runs
				for _, vm := range w.sim.VMs() {
					if vm.Name == "worker1" {
						w.edit(vm.ID, url.Values{"cores": {"1"}})
					}
				}
			}
		}
		record, err := w.try("")
		require.ErrorContains(t, err, "again: a second run found something to do: vm/worker1 (cores: 1")
		assert.Len(t, record.Steps, 4)
	})
}

// A Kubernetes that is away while a plan looks is looked at again, and that is told.
func TestWhatCannotBeSeenIsLookedAtAgain(t *testing.T) {
	for name, away := range map[string]time.Duration{"a while": 30 * time.Second, "for good": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSite(t)
				defer w.close()
				begun := ""
				w.begin = func(step string) { begun = step }
				looks := 0
				w.look = func() {
					if looks++; begun == "again" && looks < 100 { // the plan after it: nothing else looks
						looks = 100
						f := w.sim.Fail(pvesim.Rule{Path: `.*/storage/.*`, Times: -1, Status: 500, Message: "the storage is away"})
						time.AfterFunc(away, f.Remove)
					}
				}
				record, err := w.try("")
				require.Greater(t, len(record.Steps), 3)
				again := record.Steps[3]
				if away == time.Hour {
					require.ErrorContains(t, err, "again: planning after it: ")
					assert.ErrorContains(t, err, "the storage is away")
					assert.Greater(t, time.Duration(again.PlanTook), time.Minute)
					return
				}
				require.NoError(t, err)
				assert.Regexp(t, `^nothing: \d+ up to date, at attempt [2-9]$`, again.Plan)
			})
		})
	}
}

// A trial that begins again does not take what is there for its own.
func TestWhatIsThereIsNotBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		defer w.close()
		w.begin = func(step string) {
			if step == "again" {
				w.sim.Fail(pvesim.Rule{Path: `.*`, Times: 1, Status: 500, Message: "no"})
			}
		}
		_, err := w.try("")
		require.Error(t, err)
		w.begin = nil
		record, err := w.try("")
		require.ErrorContains(t, err, "something of my-trial exists already: ")
		assert.Len(t, record.Steps, 1)
		_, err = w.try("down")
		require.NoError(t, err)
	})
}

func TestAnEndFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		defer w.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		way, err := trial.New(parse(t, file), "")
		require.NoError(t, err)
		record, err := way.Run(ctx, w)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "up: timed out (-timeout)")
		assert.Len(t, record.Steps, 3)
	})
}

func TestWhatIsNotTried(t *testing.T) {
	for name, c := range map[string]struct{ old, new, from, why string }{
		"another's cluster":      {old: "my-trial", new: "home", why: "home: a trial destroys the cluster's machines at its end, so the cluster has to be called one: write name: home-trial"},
		"a word that is part":    {old: "my-trial", new: "trials", why: "trials: a trial destroys"},
		"no agent":               {old: "  worker: {count: 2, addresses: [192.168.1.71-192.168.1.72], cores: 2, memory: 4GiB}\n", why: "add one without numaNodes and hugepages"},
		"an agent that is bound": {old: "cores: 2, ", new: "cores: 2, numa: true, numaNodes: [{cpus: 0-1, memory: 4GiB}], ", why: "add one without numaNodes and hugepages"},
		"external machine":       {old: "pools:", new: "nodes: {edge: {external: ops@192.168.1.99}}\npools:", why: "node edge was not made by homelab"},
		"a step that is not":     {from: "upp", why: `step "upp" does not exist: write one of check, plan, up, again, memory, disk, grow, remove, down`},
	} {
		t.Run(name, func(t *testing.T) {
			yaml := file
			if c.old != "" {
				require.Contains(t, yaml, c.old)
				yaml = strings.Replace(yaml, c.old, c.new, 1)
			}
			_, err := trial.New(parse(t, yaml), c.from)
			assert.ErrorContains(t, err, c.why)
		})
	}
}

// The page has every step, in its order, and its file can be tried.
func TestThePage(t *testing.T) {
	text, err := os.ReadFile("../../docs/trial.md")
	require.NoError(t, err)
	var named []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		named = append(named, m[1])
	}
	assert.Equal(t, trial.Steps(), named)
	_, snippet, _ := strings.Cut(string(text), "```yaml\n")
	snippet, _, _ = strings.Cut(snippet, "```")
	_, err = trial.New(parse(t, snippet), "")
	assert.NoError(t, err)
}

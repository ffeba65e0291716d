package report

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/examples"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/history"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// site is a simulated world in which each command is a process of its own.
type site struct {
	t          *testing.T
	sim        *pvesim.Sim
	dir        string
	talk, data bytes.Buffer // of the last command
	unopened   error        // why the session cannot be opened
	ctx        context.Context
}

func newSite(t *testing.T) *site {
	k := &kubesim.Sim{}
	w := &site{t: t, ctx: t.Context(), sim: pvesim.New(pvesim.EightA100(), pvesim.Options{Kubernetes: k}), dir: t.TempDir()}
	t.Cleanup(func() {
		w.sim.Close()
		require.NoError(t, k.Close())
	})
	return w
}

// open opens a session in the world.
func (w *site) open(ctx context.Context, o session.Options) (*session.Session, error) {
	spec, err := cluster.Parse("cluster.yaml", examples.WithoutPlatform(examples.EightA100))
	require.NoError(w.t, err)
	s := &session.Session{Console: o.Console, Spec: spec}
	if w.unopened != nil {
		return s, w.unopened
	}
	id, token := w.sim.Token()
	pve, err := proxmox.Dial(ctx, proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: &http.Client{Transport: w.sim.Client().Transport}})
	if err != nil {
		return s, err
	}
	s.Redact.Add(secret.New(token))
	key, err := cluster.LoginKey(secret.New(token), spec.Name)
	require.NoError(w.t, err)
	s.Cluster, err = cluster.New(spec, cluster.Backend{Proxmox: pve, Signers: []ssh.Signer{key}, Dial: w.sim.Network().Dial, Dir: w.dir})
	return s, err
}

// do gives a command with -report, and returns the page.
func (w *site) do(command string, do func(*session.Session, context.Context) error) (string, error) {
	w.t.Helper()
	w.talk.Reset()
	w.data.Reset()
	file := filepath.Join(w.dir, "page.html")
	_ = os.Remove(file)
	o := session.Options{Report: file, Console: &console.Console{Talk: &w.talk, Data: &w.data, Redact: &secret.Redactor{}}}
	failure := doAndReport(w.ctx, o, command, w.open, do)
	text, err := os.ReadFile(file) //nolint:gosec // of this test
	require.NoError(w.t, err)
	info, err := os.Stat(file)
	require.NoError(w.t, err)
	assert.Equal(w.t, "-rw-------", info.Mode().String())
	_, token := w.sim.Token()
	assert.NotContains(w.t, string(text), token)
	return string(text), failure
}

func up(s *session.Session, ctx context.Context) error { //nolint:revive // as the methods of Session
	return session.Up(s, ctx, session.UpFlags{ChangeFlags: session.ChangeFlags{Yes: true}})
}

// notebook is a job that holds GPUs of a node as JupyterHub's pods do.
func notebook(user, node string, gpus int64) *batchv1.Job {
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: metav1.ObjectMeta{Name: "jupyter-" + user, Namespace: "default"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"hub.jupyter.org/username": user + "<b>"}},
			Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyAlways, NodeName: node, // runs forever here
				Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{nvidia.Resource: *resource.NewQuantity(gpus, resource.DecimalSI)}}}},
			},
		}},
	}
}

// TestLifeInPages: what the pages say from the first failure to a cluster in use.
func TestLifeInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		html, err := w.do("cluster:status", session.Status)
		require.Error(t, err)
		assert.Contains(t, html, "steps differ from the file")
		assert.Contains(t, html, "has no VM yet")
		assert.Contains(t, html, "What differs")
		assert.NotContains(t, html, `class="timeline"`)

		full := w.sim.Fail(pvesim.Rule{Path: `.*/upload`, Times: -1, Status: 500, Message: "no space left on device"})
		html, err = w.do("cluster:up", up)
		require.Error(t, err)
		assert.Regexp(t, `(?s)What is wrong.*cp1.*no space left on device.*id="cluster"`, html)
		assert.Contains(t, html, "not started</span>")
		assert.Contains(t, w.talk.String(), "Report: ")

		full.Remove()
		html, err = w.do("cluster:up", up)
		require.NoError(t, err)
		assert.Contains(t, html, "steps changed something.")
		assert.Contains(t, html, "Critical path")
		assert.Equal(t, 8, strings.Count(html, `<i class="gpu free" title="A100 PCIe 40GB 0000:`))
		assert.Contains(t, html, "Machines ready</span><span class=\"number good\">7<small> of 7")

		_, err = w.do("gpu:verify", func(s *session.Session, ctx context.Context) error {
			return session.GPUVerify(s, ctx, session.GPUVerifyFlags{})
		})
		require.NoError(t, err)
		w.inUse(t)
	})
}

// inUse has two users hold GPUs, and then a node drained.
func (w *site) inUse(t *testing.T) {
	s, err := w.open(t.Context(), session.Options{Console: &console.Console{Talk: &w.talk, Data: &w.data, Redact: &secret.Redactor{}}})
	require.NoError(t, err)
	defer s.Close()
	client, err := s.Cluster.Kube(t.Context())
	require.NoError(t, err)
	_, err = client.Apply(t.Context(), notebook("teacher", "wk-gpu1", 1), notebook("student1", "wk-gpu2", 2))
	require.NoError(t, err)
	time.Sleep(30 * time.Second)
	html, err := w.do("cluster:status", session.Status)
	require.NoError(t, err)
	assert.Contains(t, html, "1 of 2 in use: teacher&lt;b&gt;")
	assert.NotContains(t, html, "teacher<b>")
	assert.Contains(t, html, "8 of 8 GPUs passed on ")
	status := w.data.String()
	assert.Regexp(t, `PART +STATE +ROLE +ADDRESS +VMID +VERSION +AGE +GPUS +HELD BY`, status)
	assert.Regexp(t, `wk-gpu2 +up to date +agent +10.0.0.22 +\d+ +v1\S+ +\d+[sm] +2/2 +default/student1<b> \(2\)\n`, status)
	for line := range strings.Lines(status) {
		assert.LessOrEqual(t, len([]rune(line)), 141)
	}

	again, err := w.do("cluster:status", session.Status)
	require.NoError(t, err)
	times := regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d UTC|>\d+[smh]<`)
	assert.Equal(t, times.ReplaceAllString(html, ""), times.ReplaceAllString(again, ""), "the same state is the same page")

	w.slowly(t, s)
	require.NoError(t, client.Cordon(t.Context(), "wk-gpu3"))
	html, err = w.do("cluster:status", session.Status)
	require.Error(t, err)
	assert.Contains(t, html, "go tool mage node:uncordon -node=wk-gpu3")
	assert.Contains(t, html, "steps differ from the file")
}

// slowly has a disk become slower and then full: the page says both, what is wrong first.
func (w *site) slowly(t *testing.T, s *session.Session) {
	for day := range 5 {
		r := history.Record{
			Time: time.Now().AddDate(0, 0, day-4), Level: "full", Node: "wk-gpu2", Index: history.Whole, Driver: "580.95.05", Passed: true, Lab: true,
			Checks:   []history.Check{{Name: "keep", Verdict: "skipped", Detail: "not tried"}, {Name: "scratch", Verdict: "passed"}},
			Measures: []history.Measure{{Name: "scratch write", Value: 800, Unit: "MB/s"}},
		}
		if day == 4 {
			r.Measures[0].Value = 80
		}
		require.NoError(t, history.Add(s.History(), r))
	}
	require.NoError(t, history.Add(s.History(), history.Record{
		Time: time.Now(), Level: "full", Node: "wk-gpu4", Index: history.Whole, Lab: true, Checks: []history.Check{{Name: "scratch", Verdict: "failed", Detail: "No space left on device"}},
	}))
	html, err := w.do("cluster:status", session.Status)
	require.NoError(t, err)
	const slower = "scratch write 80.0 MB/s is slower than last month: median 800 MB/s of 4 runs since "
	assert.Regexp(t, `(?s)What is wrong.*wk-gpu4.*gpu:verify: scratch: No space left on device.*wk-gpu2.*warning.*gpu:verify: `+slower+`.*id="cluster"`, html)
	assert.Regexp(t, `(?s)id="results".*<th scope="row">wk-gpu4</th><td class="n">all</td>.*No space left on device.*<th scope="row">wk-gpu2</th><td class="n">all</td>.*`+slower+`.*5 results since .*80.0 MB/s.*<th scope="row">wk-gpu1`, html)
	assert.Contains(t, html, "<b>keep</b> skipped: not tried")
}

// A page says whether its cluster is simulated, and shows no results of the other kind.
func TestPageSaysWhatIsSimulated(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*spec.Spec)
		says   string // empty: nothing
		result string
	}{
		"lab":      {func(*spec.Spec) {}, "This cluster is simulated (proxmox.endpoint: lab)", "of the lab"},
		"real VMs": {func(s *spec.Spec) { s.LabGuests.Guests = "qemu" }, "The VMs, SSH and Kubernetes are real", "of the lab"},
		"real":     {func(s *spec.Spec) { s.Proxmox.Endpoint = "https://pve1:8006" }, "", "of a card"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSite(t)
			html, _ := w.do("cluster:status", func(s *session.Session, _ context.Context) error {
				c.change(s.Spec)
				for i, note := range []string{"of the lab", "of a card"} {
					r := history.Record{Time: time.Now(), Node: "wk-gpu1", UUID: note, Passed: true, Note: note, Lab: i == 0}
					require.NoError(t, history.Add(s.History(), r))
				}
				return nil
			})
			assert.Equal(t, c.says != "", strings.Contains(html, `<p class="simulated`))
			assert.Contains(t, html, c.says)
			for _, note := range []string{"of the lab", "of a card"} {
				assert.Equal(t, note == c.result, strings.Contains(html, note), note)
			}
		})
	}
}

// The page of hub:verify says which profiles fit, and what a server of each did.
func TestPageOfTheHub(t *testing.T) {
	w := newSite(t)
	all, err := cluster.Parse("cluster.yaml", examples.EightA100)
	require.NoError(t, err)
	html, err := w.do("hub:verify", func(s *session.Session, _ context.Context) error {
		s.Spec = all
		s.Recorder.(session.HubRecorder).StoreResults([]jupyterhub.Result{
			{Profile: "cpu", Ready: 24 * time.Second}, {Profile: "gpu-1", Ready: 31 * time.Second, Saw: jupyterhub.Observation{GPUs: []jupyterhub.GPU{{Name: "NVIDIA A100-PCIE-40GB"}}}},
			{Profile: "gpu-2", Err: errors.New("profile gpu-2: 0/7 nodes are available: 4 Insufficient nvidia.com/gpu")},
		})
		return errors.New("profile gpu-2: 0/7 nodes are available: 4 Insufficient nvidia.com/gpu")
	})
	require.Error(t, err)
	assert.Contains(t, html, "No GPU computed anything.")
	assert.Regexp(t, `(?s)What is wrong.*profile gpu-2.*Insufficient.*id="cluster"`, html)
	assert.Regexp(t, `(?s)id="profiles".*>cpu</th>.*ready after 24s, and computed.*>gpu-1</th>.*ready after 31s, and computed on 1 × NVIDIA A100-PCIE-40GB.*>gpu-2</th>.*failed: 0/7 nodes`, html)
}

// TestPageOfAnInterruptedRun is written within the time that Mage leaves.
func TestPageOfAnInterruptedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSite(t)
		var cancel context.CancelFunc
		w.ctx, cancel = context.WithCancel(w.ctx)
		begin, after := time.Now(), 20*time.Second
		time.AfterFunc(after, cancel)
		html, err := w.do("cluster:up", up)
		require.ErrorContains(t, err, "interrupted")
		assert.Less(t, time.Since(begin), after+5*time.Second)
		assert.Contains(t, html, "interrupted; run it again and it continues from here")
		assert.Contains(t, html, "stopped</span>")
	})
}

// TestPageOfWhatCannotBeOpened: the page is written when it is needed most.
func TestPageOfWhatCannotBeOpened(t *testing.T) {
	w := newSite(t)
	w.unopened = errors.New("https://pve1:8006 does not answer")
	html, err := w.do("cluster:up", up)
	require.ErrorIs(t, err, w.unopened)
	assert.Contains(t, html, "https://pve1:8006 does not answer")
	assert.Contains(t, html, "eight-a100")
}

// TestPageThatCannotBeWritten is refused before anything is done.
func TestPageThatCannotBeWritten(t *testing.T) {
	w := newSite(t)
	link := filepath.Join(w.dir, "page.html")
	require.NoError(t, os.Symlink("/etc/passwd", link))
	err := doAndReport(t.Context(), session.Options{Report: link}, "cluster:up", w.open, func(*session.Session, context.Context) error {
		t.Error("it was started")
		return nil
	})
	assert.ErrorContains(t, err, "-report="+link+": ")
	assert.ErrorContains(t, err, "symbolic link")
	var answer interface{ ExitStatus() int }
	require.ErrorAs(t, err, &answer)
	assert.Equal(t, invalid, answer.ExitStatus())
}

package session

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
)

const asking = `
name: one
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1}
defaults: {storage: vmdata}
nodes:
  server1: {role: server, address: 10.0.0.11}
  gpu1: {address: 10.0.0.21, gpus: 1}
  gpu2: {address: 10.0.0.22, gpus: 1, disks: {data: {size: 50GiB, mount: /data, role: data}}}
`

// typing is a command at a terminal at which somebody has typed this.
func typing(text string, command func(*Session, context.Context) error) func(*Session, context.Context) error {
	return func(s *Session, ctx context.Context) error {
		s.keys = strings.NewReader(text)
		return command(s, ctx)
	}
}

// adasNotebook is one that runs on gpu1, and evesVolume one whose data is on gpu2.
const adasNotebook = `
{apiVersion: v1, kind: Pod, metadata: {name: jupyter-teacher, namespace: default, labels: {component: singleuser-server},
  annotations: {hub.jupyter.org/username: teacher}}, spec: {nodeName: gpu1, containers: [{name: notebook, image: notebook}]}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-student3}, spec: {capacity: {storage: 10Gi}, accessModes: [ReadWriteOnce], storageClassName: local-path,
  hostPath: {path: /data}, persistentVolumeReclaimPolicy: Delete, claimRef: {namespace: jupyterhub, name: claim-student3},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [gpu2]}]}]}}}}
`

// changed are the requests since a moment that changed something on the hosts, but for the
// lease of a run.
func (w *site) changed(from int) (out []string) {
	for _, r := range w.sim.Requests()[from:] {
		if lease := strings.Contains(r.Path, "/qemu/9") || strings.HasSuffix(r.Path, "/qemu") && r.Method == "POST"; r.Mutating && !lease {
			out = append(out, r.Method+" "+r.Path)
		}
	}
	return out
}

// Nothing stops and nothing is destroyed before somebody has agreed to it by name.
func TestUpAsks(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		require.NoError(t, w.do(asking, Options{}, with(UpFlags{}, Up)), "what makes something out of nothing needs no consent")
		time.Sleep(time.Minute)
		require.NoError(t, w.kube.Clusters()[0].Apply(t.Context(), []byte(adasNotebook)))
		time.Sleep(time.Minute)
		yaml := strings.Replace(asking, "gpu1: {address: 10.0.0.21,", "gpu1: {address: 10.0.0.21, memory: 24GiB,", 1)
		yaml = yaml[:strings.Index(yaml, "  gpu2:")]

		const stopped = "gpu1 is stopped for 2 to 10 min: other memory\n    ends  the notebook of teacher"
		const gone = "gpu2 is destroyed: no longer in the file\n    with  volume jupyterhub/claim-student3 (10Gi), disk data (50GiB)\n"
		assert.Equal(t, pending, code(w.do(yaml, Options{}, Plan)))
		assert.Contains(t, w.data.String(), stopped)
		assert.Contains(t, w.data.String(), gone)

		before := len(w.sim.Requests())
		for name, x := range map[string]struct {
			f       UpFlags
			typed   string
			says    string
			lacking []string
		}{
			"nobody is here":        {says: "nothing was changed: there is no terminal to ask on: add -restart -destroy=gpu2, or -yes", lacking: []string{stopped, gone}},
			"nobody, and a restart": {f: UpFlags{Restart: true}, says: "add -destroy=gpu2, or -yes", lacking: []string{gone}},
			"nobody, and the name":  {f: UpFlags{Destroy: "gpu2,gpu7"}, says: "add -restart, or -yes", lacking: []string{stopped}},
			"no":                    {typed: "\n", says: "nothing was changed", lacking: []string{stopped, gone, "Go on? Type gpu2: "}},
			"yes is not the name":   {typed: "yes\n", says: "nothing was changed", lacking: []string{stopped, gone}},
			"no to what stops":      {f: UpFlags{Destroy: "gpu2"}, typed: "n\n", says: "nothing was changed", lacking: []string{stopped, "Go on? [y/N] "}},
			"the terminal is gone":  {typed: "gpu2", says: "nothing was changed", lacking: []string{stopped, gone}},
		} {
			command := with(x.f, Up)
			if x.typed != "" {
				command = typing(x.typed, command)
			}
			err := w.do(yaml, Options{}, command)
			assert.Equal(t, refused, code(err), name)
			assert.ErrorContains(t, err, x.says, name)
			for _, text := range []string{stopped, gone, "Go on? Type gpu2: ", "Go on? [y/N] "} {
				shown := strings.Contains(w.talk.String(), text)
				wanted := false
				for _, l := range x.lacking {
					wanted = wanted || l == text
				}
				if wanted || !strings.HasPrefix(text, "Go on") {
					assert.Equal(t, wanted, shown, "%s: %q in %s", name, text, w.talk.String())
				}
			}
			assert.Empty(t, w.changed(before), name)
		}

		require.NoError(t, w.do(yaml, Options{}, typing("gpu2\n", with(UpFlags{}, Up))))
		assert.NotEmpty(t, w.changed(before))
		require.NoError(t, w.do(yaml, Options{}, Plan))
		require.NoError(t, w.do(strings.Replace(yaml, "24GiB", "32GiB", 1), Options{}, typing("y\n", with(UpFlags{}, Up))))
		require.NoError(t, w.do(yaml, Options{}, with(UpFlags{Restart: true}, Up)))
		require.NoError(t, w.do(yaml, Options{}, with(UpFlags{ChangeFlags: ChangeFlags{Yes: true}}, Up)))
	})
}

// A run that finds nothing to do looks once, as a plan does, and keeps what is lost here.
func TestUpLooksOnce(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		require.NoError(t, w.do(one, Options{}, with(UpFlags{}, Up)))
		time.Sleep(time.Minute)
		asked := func(command func(*Session, context.Context) error) int {
			before := len(w.sim.Requests())
			require.NoError(t, w.do(one, Options{}, command))
			return len(w.sim.Requests()) - before
		}
		plan := asked(Plan)
		assert.Equal(t, plan, asked(with(UpFlags{}, Up)))
		assert.Regexp(t, `Nothing to change: all \d+ steps are up to date`, w.talk.String())

		kubeconfig := filepath.Join(w.dir, "kubeconfig")
		require.NoError(t, os.Remove(kubeconfig))
		require.NoError(t, w.do(one, Options{}, Plan), "it is of this machine alone")
		require.NoError(t, w.do(one, Options{}, with(UpFlags{}, Up)))
		assert.FileExists(t, kubeconfig)
	})
}

// What shows up behind something else, that nobody was asked about, is not done; the rest
// is. What is said names no flag that the command does not have.
func TestACostThatShowsLate(t *testing.T) {
	const late = "late not done: its costs appeared only now, and nobody has agreed to them"
	for says, command := range map[string]func(*Session, context.Context, *converge.Graph) error{
		late + ". Everything else is done; run it again, and it asks (-restart, or -yes, agrees to them)": func(s *Session, ctx context.Context, g *converge.Graph) error {
			_, agreed, err := s.agree(ctx, g, UpFlags{}, Change{Question: "Go on?", narrow: true})
			if err != nil {
				return err
			}
			_, err = s.run(ctx, g, agreed, false, false)
			return err
		},
		late + "; what is done stays done: run it again, and it asks (-yes agrees to them)": func(s *Session, ctx context.Context, g *converge.Graph) error {
			return s.runConfirmed(ctx, func(context.Context) (*converge.Graph, error) { return g, nil }, Change{Question: "Go on?"})
		},
	} {
		inSite(t, func(t *testing.T, w *site) {
			there, applied, kept := false, false, false
			err := w.do(one, Options{}, func(s *Session, ctx context.Context) error {
				var g converge.Graph
				first := setting(&g, "first", &there, nil)
				setting(&g, "late", &applied, []converge.Cost{{Machine: "gpu1", Kind: converge.CostStop, Reason: "other memory"}}, first)
				setting(&g, "beside", &kept, nil)
				return command(s, ctx, &g)
			})
			assert.Equal(t, refused, code(err))
			assert.EqualError(t, err, says)
			assert.Contains(t, w.talk.String(), "gpu1 is stopped (other memory)")
			assert.True(t, there && kept)
			assert.False(t, applied)
		})
	}
}

// setting adds a step that sets something, which costs this.
func setting(g *converge.Graph, id string, have *bool, costs []converge.Cost, needs ...*converge.Ref) *converge.Ref {
	return g.Add(&converge.Resource[bool]{
		ID: id, Observe: func(context.Context) (bool, error) { return *have, nil },
		Diff: func(is bool) converge.Diff {
			if is {
				return nil
			}
			return converge.Missing("it")
		},
		Apply: func(context.Context, bool) error { *have = true; return nil },
		Costs: func(context.Context, bool, converge.Diff) []converge.Cost { return costs },
	}, needs...)
}

// A letter may be a capital, and a name is what it is; a question waits as long as the
// command may take.
func TestAnswers(t *testing.T) {
	for typed, says := range map[string]map[string]bool{
		"y\n": {"": true}, "Y\n": {"": true}, "YES\n": {"": true}, "n\n": {"": false}, "yesss\n": {"": false},
		"gpu1\n": {"gpu1": true}, "GPU1\n": {"gpu1": false},
	} {
		for name, fine := range says {
			answers := []string{name}
			if name == "" {
				answers = []string{"y", "yes"}
			}
			err := askWithKeys(t.Context(), &console.Console{Talk: io.Discard}, strings.NewReader(typed), "? ", answers...)
			assert.Equal(t, fine, err == nil, "%q: %v", typed, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		nobody, end := io.Pipe()
		defer end.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := askWithKeys(ctx, &console.Console{Talk: io.Discard}, nobody, "? ", "y", "yes")
		assert.Equal(t, 1, code(err))
		require.EqualError(t, err, "timed out (-timeout) waiting for an answer; nothing was changed")
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		assert.Equal(t, 130, code(askWithKeys(ctx, &console.Console{Talk: io.Discard}, nobody, "? ", "y", "yes")))
	})
}

// The verbs ask by the same rule.
func TestVerbsAsk(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		require.NoError(t, w.do(asking, Options{}, with(UpFlags{}, Up)))
		time.Sleep(time.Minute)
		require.NoError(t, w.kube.Clusters()[0].Apply(t.Context(), []byte(adasNotebook)))
		time.Sleep(time.Minute)
		before := len(w.sim.Requests())
		for name, x := range map[string]struct {
			do    func(*Session, context.Context) error
			typed string
			shows string
		}{
			"drain, and somebody works there": {with(NodeFlags{Node: "gpu1"}, NodeDrain), "n\n", "Drain this node? [y/N] "},
			"drain, nobody asked":             {with(NodeFlags{Node: "gpu1"}, NodeDrain), "", "work on gpu1 is stopped: drained: no pods are scheduled until it is uncordoned\n    ends  the notebook of teacher"},
			"cycle":                           {with(NodeCycleFlags{NodeFlags: NodeFlags{Node: "gpu1"}}, NodeCycle), "\n", "switch its machine off and on? [y/N] "},
			"replace":                         {with(NodeReplaceFlags{NodeFlags: NodeFlags{Node: "gpu1"}}, NodeReplace), "y\n", "create it again? Type gpu1: "},
			"replace, with data":              {with(NodeReplaceFlags{NodeFlags: NodeFlags{Node: "gpu2"}, Force: true}, NodeReplace), "y\n", "gpu2 is destroyed: drained and removed from Kubernetes; its machine is recreated\n    with  volume jupyterhub/claim-student3 (10Gi), disk data (50GiB)"},
			"down":                            {with(DownFlags{}, Down), "y\n", "Destroy all this? Type one: "},
		} {
			command := x.do
			if x.typed != "" {
				command = typing(x.typed, command)
			}
			err := w.do(asking, Options{}, command)
			assert.Equal(t, refused, code(err), name)
			assert.Contains(t, w.data.String()+w.talk.String(), x.shows, name)
			assert.Empty(t, w.changed(before), name)
		}
		require.NoError(t, w.do(asking, Options{}, with(NodeFlags{Node: "gpu2"}, NodeDrain)), "nobody works there")
		require.NoError(t, w.do(asking, Options{}, with(NodeFlags{Node: "gpu2"}, NodeUncordon)))
		require.NoError(t, w.do(asking, Options{}, typing("y\n", with(NodeCycleFlags{NodeFlags: NodeFlags{Node: "gpu1"}}, NodeCycle))))
		require.NoError(t, w.do(asking, Options{}, typing("one\n", with(DownFlags{}, Down))))
	})
}

// another is somebody else, with another key in another folder, and a copy of the file.
func (w *site) another() *site {
	o := &site{t: w.t, sim: w.sim, kube: w.kube, dir: w.t.TempDir()}
	require.NoError(w.t, makeKey(filepath.Join(o.dir, "id_ed25519")))
	return o
}

// Anyone who has a copy of the file is asked before their key gets into machines that others
// have made, and no look and no other verb lets it in.
func TestUpAsksBeforeItLetsSomebodyIn(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		require.NoError(t, w.do(asking, Options{}, with(UpFlags{}, Up)))
		time.Sleep(time.Minute)
		before := len(w.sim.Requests())
		student3 := w.another()
		const asks = "a login is added to gpu1, gpu2, server1: no server of the cluster knows a key of this run"
		for name, x := range map[string]struct {
			o     Options
			do    func(*Session, context.Context) error
			code  int
			shows string
		}{
			"plan":            {Options{}, Plan, pending, asks},
			"plan, in JSON":   {Options{JSON: true}, Plan, pending, `"costs":[{"machine":"gpu1","kind":"enter","why":"no server`},
			"status":          {Options{}, Status, pending, "server1"},
			"kubeconfig":      {Options{}, Kubeconfig, 1, "homelab cluster:up asks first and adds a login"},
			"gpu:verify":      {Options{}, with(GPUVerifyFlags{}, GPUVerify), 1, "go tool mage cluster:up asks first and adds a login"},
			"node:drain":      {Options{}, with(NodeFlags{ChangeFlags: ChangeFlags{Yes: true}, Node: "gpu1"}, NodeDrain), 1, "gpu1"},
			"node:cycle":      {Options{}, with(NodeCycleFlags{NodeFlags: NodeFlags{ChangeFlags: ChangeFlags{Yes: true}, Node: "gpu1"}}, NodeCycle), 1, "gpu1"},
			"node:replace":    {Options{}, with(NodeReplaceFlags{NodeFlags: NodeFlags{ChangeFlags: ChangeFlags{Yes: true}, Node: "gpu1"}, Force: true}, NodeReplace), 1, "gpu1"},
			"up, nobody here": {Options{}, with(UpFlags{}, Up), refused, "nothing was changed: there is no terminal to ask on: add -login, or -yes\n"},
			"other flags":     {Options{}, with(UpFlags{Restart: true, Destroy: "gpu1,gpu2,server1,one"}, Up), refused, "add -login, or -yes\n"},
			"up, and no":      {Options{}, typing("\n", with(UpFlags{}, Up)), refused, "Go on? [y/N] "},
			"up, the name":    {Options{}, typing("one\n", with(UpFlags{}, Up)), refused, asks},
		} {
			err := student3.do(asking, x.o, x.do)
			require.Error(t, err, name)
			assert.Equal(t, x.code, code(err), name)
			assert.Contains(t, student3.data.String()+student3.talk.String()+err.Error()+"\n", x.shows, name)
			assert.Empty(t, student3.changed(before), name)
		}
		require.NoError(t, student3.do(asking, Options{}, typing("y\n", with(UpFlags{}, Up))))
		require.NoError(t, student3.do(asking, Options{}, Plan))
		for _, f := range []UpFlags{{Login: true}, {ChangeFlags: ChangeFlags{Yes: true}}} {
			require.NoError(t, w.another().do(asking, Options{}, with(f, Up)))
		}
		require.NoError(t, w.do(asking, Options{}, Plan), "the first one's key stays")
	})
}

func TestFlagsOfCosts(t *testing.T) {
	all := []converge.Cost{{Machine: "b", Kind: converge.CostDestroy}, {Machine: "b", Kind: converge.CostStop}, {Machine: "a", Kind: converge.CostDestroy}, {Machine: "c", Kind: converge.CostLogin}}
	assert.Equal(t, "-login -restart -destroy=a,b", costFlags(&converge.Agreement{}, all))
	assert.Equal(t, "-restart", costFlags(&converge.Agreement{}, all[1:2]))
	assert.Empty(t, costFlags(&converge.Agreement{}, nil))
}

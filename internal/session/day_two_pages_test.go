package session

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/internal/pages"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// threeTwo is the cluster of docs/upgrade.md and docs/replace.md.
const threeTwo = `
name: home
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
defaults: {storage: vmdata}
k3s: {version: v1.36.5+k3s1, vip: 10.0.0.100}
pools:
  cp: {role: server, count: 3, addresses: [10.0.0.11-10.0.0.13]}
  wk: {count: 2, addresses: [10.0.0.21-10.0.0.22], gpus: 2}
`

// whole is what a command says up to its advice.
func (w *site) whole() string {
	said, _, _ := strings.Cut(w.data.String()+w.talk.String(), "\nNext:\n")
	return said
}

func (w *site) vmid(name string) int {
	for _, vm := range w.sim.VMs() {
		if vm.Name == name {
			return vm.ID
		}
	}
	return 0
}

func (w *site) restarts(t *testing.T, name string, f guest.Faults) {
	t.Helper()
	w.sim.SetGuestFaults(w.vmid(name), f)
	for _, vm := range w.sim.VMs() {
		if vm.Name == name {
			_, err := vm.Guest.AgentExec([]string{"systemctl", "restart", "k3s"}, nil)
			require.NoError(t, err)
		}
	}
	time.Sleep(time.Minute)
}

// trains starts a pod that holds two GPUs of wk1.
func (w *site) trains(t *testing.T) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(w.dir, "kubeconfig"))
	require.NoError(t, err)
	client, err := kube.New(kube.Config{Kubeconfig: config, Dial: w.sim.Network().Dial})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	_, err = client.Apply(t.Context(), &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "llm-0", Namespace: "default"},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: "wk1"}, Tolerations: check.Tolerations(),
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/train", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{nvidia.Resource: *resource.NewQuantity(2, resource.DecimalSI)},
			}}},
		},
	})
	require.NoError(t, err)
	time.Sleep(time.Minute)
}

func yes(f UpFlags) UpFlags {
	f.Yes = true
	return f
}

// TestUpgradePage: docs/upgrade.md shows what the commands say.
func TestUpgradePage(t *testing.T) {
	newer := strings.Replace(threeTwo, "v1.36.5", "v1.36.6", 1)
	up := with(yes(UpFlags{}), Up)
	inSite(t, func(t *testing.T, w *site) {
		require.NoError(t, w.do(threeTwo, Options{}, with(UpFlags{}, Up)))
		time.Sleep(time.Minute)

		require.Equal(t, pending, code(w.do(newer, Options{}, Plan)))
		pages.Compare(t, "docs/upgrade.md", "plan", w.whole(), *update)
		err := w.do(strings.Replace(threeTwo, "v1.36.5", "v1.38.1", 1), Options{}, up)
		require.Error(t, err)
		require.Contains(t, w.steps("k3s/cp1 "), "k3s cannot go from v1.36.5+k3s1 to v1.38.1+k3s1: upgrade one minor version at a time: write a v1.37 release first")

		w.restarts(t, "cp3", guest.Faults{EtcdSick: true})
		err = w.do(newer, Options{}, up)
		require.Error(t, err)
		pages.Compare(t, "docs/upgrade.md", "sick", w.steps("k3s/cp1 "), *update)
		w.restarts(t, "cp3", guest.Faults{})

		w.trains(t)
		err = w.do(newer, Options{}, up)
		require.Error(t, err)
		pages.Compare(t, "docs/upgrade.md", "gpus", w.steps("k3s/wk1 "), *update)
	})
	inSite(t, func(t *testing.T, w *site) {
		require.NoError(t, w.do(threeTwo, Options{}, with(UpFlags{}, Up)))
		time.Sleep(time.Minute)
		require.NoError(t, w.do(newer, Options{}, up))
		pages.Compare(t, "cluster/testdata/upgrade.md", "up", w.whole(), *update)
	})
}

// steps are the last lines of a step: its failure.
func (w *site) steps(step string) string {
	var out []string
	on := false
	for line := range strings.Lines(w.talk.String()) {
		switch {
		case strings.Contains(line, step):
			out, on = []string{line}, true
		case on && strings.HasPrefix(line, " "):
			out = append(out, line)
		default:
			on = false
		}
	}
	return strings.Join(out, "")
}

// TestReplacePage: docs/replace.md shows what the commands say.
func TestReplacePage(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		require.NoError(t, w.do(threeTwo, Options{}, with(UpFlags{}, Up)))
		time.Sleep(time.Minute)
		require.NoError(t, w.do(threeTwo, Options{}, func(s *Session, ctx context.Context) error {
			vm, err := s.Cluster.Proxmox.VMs.Get(ctx, "homelab-home", "cp1")
			if err != nil {
				return err
			}
			return s.Cluster.Proxmox.VMs.Stop(ctx, vm)
		}))
		time.Sleep(2 * time.Minute)
		verb := NodeReplaceFlags{NodeFlags: NodeFlags{ChangeFlags: ChangeFlags{Yes: true}, Node: "cp1"}}
		require.NoError(t, w.do(threeTwo, Options{}, with(verb, NodeReplace)))
		pages.Compare(t, "docs/replace.md", "replace", w.whole(), *update)
		time.Sleep(3 * time.Minute)
		require.NoError(t, w.do(threeTwo, Options{}, Plan))
		require.Contains(t, w.whole(), "Nothing to change")
	})
}

// TestPlanPages: docs/gpus.md and docs/vms.md show what cluster:plan says.
func TestPlanPages(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		file := strings.Replace(threeTwo, "wk: {", "gpu: {", 1)
		require.Equal(t, pending, code(w.do(file, Options{}, Plan)))
		pages.Compare(t, "docs/gpus.md", "plan", w.whole(), *update)
	})
	inSite(t, func(t *testing.T, w *site) {
		w.sim.Close()
		w.sim = pvesim.New(pvesim.OneGPU(), pvesim.Options{Kubernetes: w.kube})
		file, _, _ := strings.Cut(threeTwo, "defaults:")
		require.Equal(t, pending, code(w.do(file+"nodes: {cp: {role: server, address: 10.0.0.11}}\n"+pages.Page(t, "docs/vms.md")[0].Text, Options{}, Plan)))
		pages.Compare(t, "docs/vms.md", "plan", w.whole(), *update)
	})
}

package addon_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// site is a simulated cluster of three nodes, the last of them tainted.
type site struct {
	*kube.Client
	sim  *kubesim.Cluster
	lies atomic.Pointer[string] // what readers find in place of what was written
	stop atomic.Bool            // pods never end

	mu  sync.Mutex
	ran []string // verb and node of each pod that ran
}

func withSite(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sim, err := kubesim.New(t.Context(), guest.PlaneConfig{Version: "v1.36.5+k3s1", TLSSANs: []string{"10.0.0.10"}}, 1)
		require.NoError(t, err)
		t.Cleanup(func() { _ = sim.Close() })
		s := &site{sim: sim}
		for i, name := range []string{"a", "b", "gpu"} {
			s.join(t, name, i)
		}
		s.Client, err = kube.New(kube.Config{Kubeconfig: sim.Kubeconfig("https://10.0.0.10:6443"),
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return sim.Dial(ctx) }})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		time.Sleep(10 * time.Second)
		test(t, s)
	})
}

func (s *site) join(t *testing.T, name string, i int) {
	n := guest.Node{Name: name, Role: "agent", Version: "v1.36.5+k3s1", CPUs: 4, Memory: 8 << 30,
		InternalIP: netip.AddrFrom4([4]byte{10, 0, 0, byte(11 + i)}),
		Run:        func(ctx context.Context, c guest.Container) (int, string, string) { return s.run(ctx, name, c) }}
	if name == "gpu" {
		n.Taints = []string{"nvidia.com/gpu=present:NoSchedule"}
	}
	assert.NoError(t, s.sim.Join(t.Context(), n))
}

// run does what the scripts of a probe do.
func (s *site) run(ctx context.Context, node string, c guest.Container) (int, string, string) {
	if s.stop.Load() {
		<-ctx.Done()
		return 137, "", ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	disk := c.Volumes["/probe"]
	if c.Env["MIB"] != "" {
		s.ran = append(s.ran, "speed "+node)
		if lie := s.lies.Load(); lie != nil {
			return 0, "", *lie
		}
		return 0, "", "direct\n134217728 bytes (128.0MB) copied, 0.268435 seconds, 476.8MB/s\n134217728 bytes (134 MB, 128 MiB) copied, 0.0671089 s, 2.0 GB/s\n"
	}
	if strings.Contains(c.Args[2], "printf") {
		s.ran = append(s.ran, "write "+node)
		_ = disk.WriteFile("/text", []byte(c.Env["TEXT"]), 0o644)
	} else {
		s.ran = append(s.ran, "read "+node)
	}
	b, err := disk.ReadFile("/text")
	if err != nil {
		return 1, "", "cat: can't open '/probe/text': No such file or directory"
	}
	if lie := s.lies.Load(); lie != nil && !strings.Contains(c.Args[2], "printf") {
		b = []byte(*lie)
	}
	return 0, "", string(b)
}

// provide installs a class and the pod that makes its volumes.
func (s *site) provide(t *testing.T, sc *storagev1.StorageClass) {
	t.Helper()
	_, err := s.Apply(t.Context(), sc, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "provisioner", Namespace: "kube-system", Annotations: map[string]string{kubesim.Provisions: sc.Provisioner}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})
	require.NoError(t, err)
	time.Sleep(10 * time.Second)
}

// clean checks that nothing of a probe is left.
func (s *site) clean(t *testing.T) {
	t.Helper()
	assert.Empty(t, s.sim.Names("persistentvolumes"))
	assert.Empty(t, s.sim.Names("persistentvolumeclaims"))
	for _, name := range s.sim.Names("pods") {
		assert.NotRegexp(t, "-(write|read)$", name)
	}
}

func nfsClass(t *testing.T) *storagev1.StorageClass {
	t.Helper()
	return must(t, addon.NFS{NFS: nfs()}, addon.Site{}).After[0].(*storagev1.StorageClass)
}

func TestProbeSharedClass(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		sc := nfsClass(t)
		p := must(t, addon.NFS{NFS: nfs()}, addon.Site{Nodes: []spec.Node{{Name: "a"}, {Name: "b"}, {Name: "gpu"}}}).Probes[0]
		assert.Equal(t, corev1.ReadWriteMany, p.Mode)

		state, err := p.Observe(t.Context(), s.Client)
		require.NoError(t, err)
		assert.Equal(t, "class: nfs [there is no such storage class yet]", p.Diff(state)[0].String())

		s.provide(t, sc)
		state, err = p.Observe(t.Context(), s.Client)
		require.NoError(t, err)
		assert.Equal(t, "volume of nfs: written, read and removed once [not tested since the class was created or changed]", p.Diff(state)[0].String())

		require.NoError(t, p.Run(t.Context(), s.Client))
		assert.Equal(t, []string{"write a", "read b"}, s.ran, "read on another node, and none that the probe does not tolerate")
		s.clean(t)
		state, err = p.Observe(t.Context(), s.Client)
		require.NoError(t, err)
		assert.Empty(t, p.Diff(state))

		// The class is applied again and keeps the note; changed, it does not.
		changes, err := s.Apply(t.Context(), sc)
		require.NoError(t, err)
		assert.Equal(t, kube.Unchanged, changes[0].Result)
		other := sc.DeepCopy()
		other.Parameters["share"] = "/elsewhere"
		_, err = s.ApplyOrRecreate(t.Context(), other)
		require.NoError(t, err)
		state, err = p.Observe(t.Context(), s.Client)
		require.NoError(t, err)
		assert.NotEmpty(t, p.Diff(state))
	})
}

func TestProbeLocalClassOnEveryNode(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		part := must(t, addon.Scratch{Scratch: &spec.Scratch{Class: "scratch", Path: "/scratch", Nodes: []string{"a", "gpu"}}}, addon.Site{Nodes: seven()})
		s.provide(t, part.After[0].(*storagev1.StorageClass))
		p := part.Probes[0]
		assert.True(t, p.Local)
		require.NoError(t, p.Run(t.Context(), s.Client))
		assert.ElementsMatch(t, []string{"write a", "read a", "write gpu", "read gpu"}, s.ran)
		s.clean(t)
		state, err := p.Observe(t.Context(), s.Client)
		require.NoError(t, err)
		assert.Empty(t, p.Diff(state))
		p.Nodes = append(p.Nodes, "b")
		state, err = p.Observe(t.Context(), s.Client)
		require.NoError(t, err)
		assert.NotEmpty(t, p.Diff(state), "another node has its own disk")

		assert.Contains(t, p.Diff(state).String(), "not tested on b")
		s.ran = nil
		require.NoError(t, p.Run(t.Context(), s.Client))
		assert.Equal(t, []string{"write b", "read b"}, s.ran, "and the others are not tried again")
	})
}

func TestProbeOfANodeThatNothingMayRunOn(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		p := addon.Probe{Class: "local-path", Local: true, Nodes: []string{"gpu"}}
		err := p.Run(t.Context(), s.Client)
		require.ErrorContains(t, err, "volumes on gpu cannot be tested: its taint nvidia.com/gpu=present:NoSchedule is not tolerated")
		err = addon.Probe{Class: "local-path", Nodes: []string{"gpu"}}.Run(t.Context(), s.Client)
		require.ErrorContains(t, err, "no node can run a pod that tests it")
	})
}

// A node that has just joined is waited for; one that somebody cordoned is left out
// until it is let back.
func TestProbeWaitsForNodes(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		s.sim.Leave("b")
		time.Sleep(time.Minute)
		go func() {
			time.Sleep(20 * time.Second)
			s.join(t, "b", 1)
		}()
		var mu sync.Mutex // nodes are tried side by side
		var said []string
		ctx := converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) { mu.Lock(); defer mu.Unlock(); said = append(said, u.String()) })
		p := addon.Probe{Class: "local-path", Local: true, Nodes: []string{"a", "b"}}
		require.NoError(t, p.Run(ctx, s.Client))
		assert.Contains(t, strings.Join(said, "\n"), "waiting for nodes: b ")
		assert.ElementsMatch(t, []string{"write a", "read a", "write b", "read b"}, s.ran)

		// As a node that is away for good: then it is said what was waited for.
		s.sim.Leave("b")
		time.Sleep(time.Minute)
		require.NoError(t, s.Annotate(t.Context(), class("local-path"), map[string]string{addon.Probed: ""}))
		p.Timeout = time.Minute
		require.ErrorContains(t, p.Run(ctx, s.Client), "not done within 1m0s: waiting for nodes: b ")

		require.NoError(t, s.Cordon(t.Context(), "b"))
		require.NoError(t, p.Run(ctx, s.Client))
		assert.Contains(t, strings.Join(said, "\n"), "cordoned, and not tested now: b")
		state, err := p.Observe(t.Context(), s.Client)
		require.NoError(t, err)
		assert.Empty(t, p.Diff(state))
		s.join(t, "b", 1)
		time.Sleep(time.Minute)
		require.NoError(t, s.Uncordon(t.Context(), "b"))
		state, err = p.Observe(t.Context(), s.Client)
		require.NoError(t, err)
		assert.Equal(t, []string{"b"}, state.Untold)
	})
}

func class(name string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestProbeSaysWhyAVolumeIsMissing(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		sc := nfsClass(t)
		_, err := s.Apply(t.Context(), sc, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: addon.ProbeNamespace}}, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "e", Namespace: addon.ProbeNamespace},
			InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: addon.ProbeNamespace, Name: "nfs"},
			Type:           corev1.EventTypeWarning, Reason: "ProvisioningFailed", Message: "mount.nfs: Connection refused"})
		require.NoError(t, err)
		var mu sync.Mutex // nodes are tried side by side
		var said []string
		ctx := converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) { mu.Lock(); defer mu.Unlock(); said = append(said, u.String()) })
		p := addon.Probe{Class: "nfs", Timeout: time.Minute}
		began := time.Now()
		err = p.Run(ctx, s.Client)
		require.ErrorContains(t, err, "storage class nfs: not done within 1m0s: claim homelab-probe/nfs has no volume: ProvisioningFailed: mount.nfs: Connection refused")
		assert.Less(t, time.Since(began), 2*time.Minute)
		assert.Contains(t, strings.Join(said, "\n"), "claim homelab-probe/nfs has no volume")
		s.clean(t)
		state, err := p.Observe(t.Context(), s.Client)
		require.NoError(t, err)
		assert.NotEmpty(t, p.Diff(state))
	})
}

func TestProbeFindsWhatWasNotWritten(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		s.provide(t, nfsClass(t))
		lie := "something else"
		s.lies.Store(&lie)
		err := addon.Probe{Class: "nfs"}.Run(t.Context(), s.Client)
		require.ErrorContains(t, err, `read on b: the volume holds "something else" where`)
		s.clean(t)
	})
}

func TestProbeCleansUpWhenCancelled(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		s.provide(t, nfsClass(t))
		s.stop.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(20 * time.Second); cancel() }()
		err := addon.Probe{Class: "nfs"}.Run(ctx, s.Client)
		require.ErrorIs(t, err, context.Canceled)
		s.clean(t)
	})
}

// What a run that was killed left behind does not disturb the next.
func TestProbeAfterAKilledRun(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		s.provide(t, nfsClass(t))
		class := "nfs"
		objects := []runtime.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: addon.ProbeNamespace}},
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "nfs", Namespace: addon.ProbeNamespace},
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "nfs-write", Namespace: addon.ProbeNamespace},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		}
		_, err := s.Apply(t.Context(), objects...)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.Len(t, s.sim.Names("persistentvolumes"), 1)
		require.NoError(t, addon.Probe{Class: "nfs"}.Run(t.Context(), s.Client))
		s.clean(t)
	})
}

func TestProbeOfAClassThatIsNotThere(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		require.ErrorIs(t, addon.Probe{Class: "nothing"}.Run(t.Context(), s.Client), kube.ErrNotFound)
	})
}

// The scripts do what the tests above pretend, in a real shell.
func TestProbeScripts(t *testing.T) {
	write, read := addon.ProbeScripts()
	dir := t.TempDir()
	sh := func(script string) (string, error) {
		script = strings.NewReplacer("/probe/", dir+"/", "/dev/termination-log", dir+"/log").Replace(script)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Env = []string{"TEXT=100% sure", "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return string(out), fmt.Errorf("%w: %s", err, out)
		}
		log, err := os.ReadFile(filepath.Join(dir, "log"))
		return string(log), err
	}
	got, err := sh(write)
	require.NoError(t, err)
	assert.Equal(t, "100% sure", got)
	got, err = sh(read)
	require.NoError(t, err)
	assert.Equal(t, "100% sure", got)
	assert.NoFileExists(t, filepath.Join(dir, "text"))
	_, err = sh(read)
	require.Error(t, err, "there is nothing to read any more")
}

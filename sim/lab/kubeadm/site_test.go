package kubeadm_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/remote"
)

// version is that of the programs, which are compiled from a module.
const version = labctl.KubernetesVersion

// need skips the test on a machine that cannot have such machines; in CI it fails instead.
func need(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: a real cluster takes minutes, and -short is set")
	}
	var lacks []string
	if os.Geteuid() != 0 {
		lacks = append(lacks, "root's rights")
	}
	for _, program := range []string{"/lib/systemd/systemd", "/usr/lib/cni/ptp", "dbus-daemon", "runc", "conmon", "gcc", "conntrack", "iptables", "ip", "unshare", "nsenter", "ldd"} {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, program)
		}
	}
	if len(lacks) == 0 {
		return
	}
	if os.Getenv("CI") != "" && os.Getenv("HOMELAB_NO_KUBEADM") == "" { // .ci/run sets it where they are not available
		require.Empty(t, lacks, "CI runs real nodes, and this machine lacks Debian packages for them")
	}
	t.Skip("SKIPPED: this machine cannot have real nodes, it lacks " + strings.Join(lacks, ", "))
}

// build compiles the programs of a node into a folder.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	minor := strings.Split(strings.TrimPrefix(version, "v"), ".")
	const variables = "k8s.io/component-base/version."
	flags := fmt.Sprintf("-s -w -X %sgitVersion=%s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s", variables, version, minor[0], minor[1])
	args := append([]string{"build", "-buildvcs=false", "-ldflags", flags, "-o", dir + "/"}, labctl.CompilerFlags()...)
	args = append(args, "-tags=node,no_btrfs,no_zfs,kustomize_disable_go_plugin_support")
	cmd := exec.CommandContext(t.Context(), "go", append(args, "./node", "./pause", "tool")...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	buildCRIO(t, dir)
	return dir
}

// buildCRIO compiles CRI-O, which is in a module of its own, since it needs other versions of what Kubernetes needs, and
// its program pinns, which is in C.
func buildCRIO(t *testing.T, dir string) {
	t.Helper()
	args := []string{"build", "-C", "crio", "-buildvcs=false", "-ldflags", "-s -w", "-o", dir + "/",
		"-tags=containers_image_openpgp,containers_image_ostree_stub,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper", "tool"}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	list := exec.CommandContext(t.Context(), "go", "list", "-C", "crio", "-m", "-f", "{{.Dir}}", "github.com/cri-o/cri-o")
	list.Env = append(os.Environ(), "GOWORK=off")
	source, err := list.Output()
	require.NoError(t, err)
	files, err := filepath.Glob(strings.TrimSpace(string(source)) + "/pinns/src/*.c")
	require.NoError(t, err)
	out, err = exec.CommandContext(t.Context(), "gcc", append([]string{"-std=c99", "-O1", "-o", dir + "/pinns"}, files...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// saveImages saves one image by all names that kubeadm, our manifests and the test ask for. In it are the parts of the
// control plane; what is in no such part waits.
func saveImages(t *testing.T, programs, file string, names ...string) {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	copyInto := func(from, to string) {
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(root+to), 0o755))
		require.NoError(t, os.WriteFile(root+to, data, 0o755)) //nolint:gosec // programs
	}
	copyInto(filepath.Join(programs, "node"), "/usr/local/bin/node")
	copyInto(filepath.Join(programs, "pause"), "/pause")
	for _, name := range []string{"etcd", "etcdctl", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		require.NoError(t, os.Symlink("node", root+"/usr/local/bin/"+name))
	}
	libraries, err := exec.CommandContext(t.Context(), "ldd", filepath.Join(programs, "node")).Output()
	require.NoError(t, err)
	for _, library := range regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1) {
		copyInto(library, library)
	}
	require.NoError(t, os.MkdirAll(root+"/tmp", 0o755)) //nolint:gosec // as in an image
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	require.NoError(t, w.AddFS(os.DirFS(root)))
	require.NoError(t, w.Close())
	config, err := json.Marshal(map[string]any{"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/pause"}, "Env": []string{"PATH=/usr/local/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}}})
	require.NoError(t, err)
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": names, "Layers": []string{"layer.tar"}}})
	require.NoError(t, err)
	out, err := os.Create(file)
	require.NoError(t, err)
	all := tar.NewWriter(out)
	for _, part := range []struct {
		name string
		data []byte
	}{{"manifest.json", manifest}, {"config.json", config}, {"layer.tar", layer.Bytes()}} {
		require.NoError(t, all.WriteHeader(&tar.Header{Name: part.name, Mode: 0o644, Size: int64(len(part.data))}))
		_, err := all.Write(part.data)
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(all.Close(), out.Close()))
}

// start starts machines in namespaces, which end with the test, however that ends, and returns how to run commands on
// each as root.
func start(t *testing.T, programs, images string, names ...string) map[string]remote.Runner {
	t.Helper()
	dir := t.TempDir()
	units, err := filepath.Abs("testdata/units")
	require.NoError(t, err)
	script, err := filepath.Abs("testdata/site.sh")
	require.NoError(t, err)
	cmd := exec.Command("unshare", append([]string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", script, dir, programs, images, units, group()}, names...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	began, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // Pdeathsig is sent when the thread ends
		err := cmd.Start()
		began <- err
		if err == nil {
			_, _ = cmd.Process.Wait()
		}
	}()
	require.NoError(t, <-began)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		removeGroups(t)
	})
	site := firstChild(t, cmd.Process.Pid)
	all := map[string]remote.Runner{}
	lines := bufio.NewScanner(out)
	for len(all) < len(names) && lines.Scan() {
		var name, pid, address string
		_, err := fmt.Sscan(lines.Text(), &name, &pid, &address)
		require.NoError(t, err)
		all[name] = machine{site, pid}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if len(all) < len(names) {
		for _, name := range names {
			log, _ := os.ReadFile(filepath.Join(dir, name+".log"))
			t.Logf("%s: %s", name, log)
		}
		t.Fatal("the machines did not start")
	}
	return all
}

// group begins the names of control groups, which all of this system share.
func group() string { return fmt.Sprintf("homelab-%d", os.Getpid()) }

func firstChild(t *testing.T, pid int) string {
	t.Helper()
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
		require.NoError(t, err)
		if child := strings.TrimSpace(string(text)); child != "" {
			return child
		}
	}
}

// removeGroups removes the control groups of machines that have ended, which are in no namespace: this test's, and those
// of one that was killed.
func removeGroups(t *testing.T) {
	t.Helper()
	trees, err := filepath.Glob("/sys/fs/cgroup/homelab-*-*")
	require.NoError(t, err)
	more, err := filepath.Glob("/sys/fs/cgroup/*/homelab-*-*")
	require.NoError(t, err)
	for _, tree := range append(trees, more...) {
		pid := strings.Split(filepath.Base(tree), "-")[1]
		if _, err := os.Stat("/proc/" + pid); err == nil && pid != strconv.Itoa(os.Getpid()) {
			continue // of another test
		}
		eventually(t, func() error {
			return exec.Command("find", tree, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").Run()
		})
	}
}

// machine runs commands on a machine: that with a process id in the process namespace of a site.
type machine struct{ site, pid string }

// Run implements [remote.Runner].
func (m machine) Run(ctx context.Context, c remote.Cmd) error {
	enter := []string{"nsenter", "--target", m.site, "--pid", "--mount", "nsenter", "--target", m.pid, "--all", "--"}
	return run(ctx, append(enter, c.Args...), c)
}

func run(ctx context.Context, args []string, c remote.Cmd) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // the test's own
	var said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, &said
	if c.Stderr != nil {
		cmd.Stderr = io.MultiWriter(c.Stderr, &said)
	}
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C"}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return &remote.ExitError{Args: c.Args, Code: exit.ExitCode(), Stderr: said.String()}
	}
	return errors.Join(err, ctx.Err())
}

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/examples"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// user sits in a folder inside of a clone and types commands.
type user struct {
	dir, mage string
	kind      labctl.Guests   // what is real in his lab
	env       []string        // of his commands, and so of the lab that they start
	said      strings.Builder // all that any command printed

	kubectlWords []string // its program and kubeconfig, once they are needed
}

// newUser has a lab with a real control plane.
func newUser(t *testing.T) *user {
	t.Helper()
	return newUserOf(t, labtest.Real())
}

func newUserOf(t *testing.T, kind labctl.Guests) *user {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	require.True(t, ok)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	base := filepath.Join(root, ".lab", "e2e")
	require.NoError(t, os.MkdirAll(base, 0o700))
	dir, err := os.MkdirTemp(base, "user-")
	require.NoError(t, err)
	u := &user{dir: dir, mage: labtest.Homelab(t), kind: kind}
	labtest.Provide(t, u.lab(), kind)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		require.NoError(t, labctl.Stop(ctx, u.lab()))
		require.NoError(t, os.RemoveAll(dir))
	})
	u.write(t, "cluster.yaml", bare(t))
	return u
}

// elsewhere is the same user in another folder, which has the file and nothing else.
func (u *user) elsewhere(t *testing.T) *user {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(u.dir), "elsewhere-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Symlink(u.lab(), filepath.Join(dir, ".lab")))
	other := &user{dir: dir, mage: u.mage, kind: u.kind}
	other.write(t, "cluster.yaml", bare(t))
	return other
}

func (u *user) lab() string { return filepath.Join(u.dir, ".lab") }

// fastLab starts a lab that is four times faster than usual.
func (u *user) fastLab(t *testing.T) {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	_, err := labctl.Start(t.Context(), labctl.Options{Dir: u.lab(), Source: filepath.Join(filepath.Dir(file), "..", "..", ".."), Speed: 40, Guests: u.kind})
	require.NoError(t, err)
}

// command prepares one, in a process group of its own as a shell would.
func (u *user) command(ctx context.Context, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	cmd = exec.CommandContext(ctx, u.mage, args...)
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = u.dir, stdout, stderr
	cmd.Env = append(cmd.Environ(), u.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, stdout, stderr
}

// run types a command and returns what it said and its exit code.
func (u *user) run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd, out, errs := u.command(ctx, args...)
	begun := time.Now()
	err := cmd.Run()
	u.said.WriteString(out.String() + errs.String())
	t.Logf("%s: exit %d in %s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), time.Since(begun).Round(100*time.Millisecond))
	if err != nil && cmd.ProcessState.ExitCode() < 0 {
		t.Fatalf("%v: %v\n%s\n%s", args, err, out, errs)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must is run for what has to work.
func (u *user) must(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, code := u.run(t, args...)
	require.Zero(t, code, "%v\n%s\n%s", args, stdout, stderr)
	return stdout, stderr
}

// write writes a file. A cluster's says what is real in the user's lab.
func (u *user) write(t *testing.T, file, content string) {
	t.Helper()
	if file == "cluster.yaml" && u.kind.Kubernetes {
		content += "\nlab: {kubernetes: real}\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(u.dir, file), []byte(content), 0o600))
}

// proxmox is the lab's simulated host, seen with its own token.
func (u *user) proxmox(t *testing.T) *proxmox.Client {
	t.Helper()
	lab, err := labctl.Find(t.Context(), u.lab())
	require.NoError(t, err)
	token, err := lab.Token()
	require.NoError(t, err)
	client, err := proxmox.Dial(t.Context(), proxmox.Config{
		Endpoint: lab.Endpoint, Fingerprint: lab.Fingerprint, TokenID: lab.TokenID, TokenSecret: token,
	})
	require.NoError(t, err)
	return client
}

// inventory is everything on the host, by name.
func (u *user) inventory(t *testing.T) (vms, volumes, mappings []string) {
	t.Helper()
	client := u.proxmox(t)
	for _, storage := range []string{"local", "vmdata"} {
		all, err := client.Storages.Volumes(t.Context(), "pve1", storage, "")
		require.NoError(t, err)
		for _, v := range all {
			volumes = append(volumes, v.ID)
		}
	}
	found, err := client.PCI.Mappings(t.Context(), "")
	require.NoError(t, err)
	for _, m := range found {
		mappings = append(mappings, m.ID)
	}
	owned, err := client.VMs.List(t.Context(), "homelab-eight-a100")
	require.NoError(t, err)
	for _, vm := range owned {
		vms = append(vms, vm.Name)
	}
	return vms, volumes, mappings
}

func example(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../../examples/eight-a100/cluster.yaml")
	require.NoError(t, err)
	return string(b)
}

// bare is the example's machines and empty cluster, which is what most tests want.
func bare(t *testing.T) string {
	t.Helper()
	return string(examples.WithoutPlatform([]byte(example(t))))
}

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// TestMishaps is what befalls people: a disk that is full, a machine of the cluster that
// somebody copies, a laptop that is shut in the middle. Its parts are two lives.
func TestMishaps(t *testing.T) {
	t.Parallel()
	onEither(t, 2, []labctl.Guests{{}, labtest.Real()}, mishaps)
}

func mishaps(t *testing.T, kind labctl.Guests) {
	t.Parallel()
	u := newUserOf(t, kind)
	u.must(t, "lab:start")
	t.Run("a disk that is full", u.fullDisk)
	t.Run("a node that somebody clones", u.clonedNode)
	t.Run("a laptop that is shut", u.shutLaptop)
	u.saidNoSecrets(t)
}

// onFullDisk is a shell script in which all that is kept here is on a file system of its
// own, of 64 KiB, which somebody else has filled. Nobody else sees it, and it goes with
// the shell.
const onFullDisk = `
homelab=$1
mkdir -p .homelab
mount -t tmpfs -o size=64k,mode=0700 tmpfs .homelab
head -c 1000000 /dev/zero >.homelab/of-others 2>/dev/null || true
kept() { find .homelab -type f ! -name of-others; }
"$homelab" cluster:up && code=0 || code=$?
echo "== full: exit $code, kept: $(kept)"
"$homelab" cluster:plan && code=0 || code=$?
echo "== look: exit $code, kept: $(kept)"
rm .homelab/of-others
"$homelab" cluster:up && code=0 || code=$?
echo "== room: exit $code, kept: $(kept | sort | tr '\n' ' ')"
"$homelab" cluster:plan && code=0 || code=$?
echo "== up to date: exit $code"
`

// fullDisk makes a cluster with no room for what is learnt of its machines: they are made,
// what could not be kept is said, nothing is half there, and when there is room the next
// run goes on.
func (u *user) fullDisk(t *testing.T) {
	args := []string{"--mount"} // namespaces, see unshare(1)
	if os.Geteuid() != 0 {
		args = append(args, "--map-root-user")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "unshare", append(args, "true")...).CombinedOutput(); err != nil && os.Getenv("CI") == "" { //nolint:gosec // no words of others
		t.Skipf("no file system of one's own here: %v: %s", err, out)
	}
	cmd := exec.CommandContext(ctx, "unshare", append(args, "sh", "-euc", onFullDisk, "sh", u.mage)...) //nolint:gosec // a script of ours
	var said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = u.dir, &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	u.said.WriteString(said.String())
	require.NoError(t, err, "%s", said.String())
	full, rest, _ := strings.Cut(said.String(), "== look")
	assert.Contains(t, full, "== full: exit 1, kept: \n")
	assert.Contains(t, full, "known hosts: write .homelab/eight-a100/.known_hosts")
	assert.Contains(t, full, "no space left on device")
	assert.Contains(t, full, "what is done stays done: fix it and run it again")
	assert.Contains(t, rest, ": exit 2, kept: \n", "a look needs no room")
	assert.Contains(t, rest, "== room: exit 0, kept: .homelab/.gitignore .homelab/eight-a100/known_hosts .homelab/eight-a100/kubeconfig")
	assert.Contains(t, rest, "== up to date: exit 0")
	u.isWhole(t)
}

// clonedNode clones a worker that runs, as one does before trying something: the copy has
// its tag, its name's mark and its cards. Nothing here touches it, and all say so.
func (u *user) clonedNode(t *testing.T) {
	const copied = "900"
	worker := u.vmid(t, "wk-gpu1")
	u.asRoot(t, "pvesh", "create", fmt.Sprintf("/nodes/pve1/qemu/%d/clone", worker), "--newid", copied, "--full", "1", "--name", "wk-gpu1-of-student1")
	var stray proxmox.Stray
	u.eventually(t, "the copy is there", func() bool {
		all, err := u.proxmox(t).VMs.Strays(t.Context(), "homelab-eight-a100")
		require.NoError(t, err)
		config := u.asRoot(t, "pvesh", "get", "/nodes/pve1/qemu/"+copied+"/config", "--output-format", "json")
		if len(all) != 1 || strings.Contains(config, `"lock"`) {
			return false
		}
		stray = all[0]
		return true
	})
	require.Equal(t, copied, strconv.Itoa(stray.VMID))
	config := func() string {
		return u.asRoot(t, "pvesh", "get", "/nodes/pve1/qemu/"+copied+"/config", "--output-format", "json")
	}
	before := config()
	const says = "VM 900 (wk-gpu1-of-student1) on pve1 has the tag homelab-eight-a100 but is not a machine of this cluster"
	out, talk := u.must(t, "cluster:plan")
	assert.Contains(t, out, "Nothing to change")
	assert.Contains(t, talk, says)
	u.write(t, "cluster.yaml", strings.Replace(bare(t), "homelab.example/pool: gpu", "homelab.example/pool: a100", 1))
	defer u.write(t, "cluster.yaml", bare(t))
	_, talk = u.must(t, "cluster:up")
	assert.Contains(t, talk, says)
	assert.Equal(t, before, config(), "a change of its original is none of the copy")
	_, talk = u.must(t, "cluster:down", "-yes")
	assert.Contains(t, talk, says)
	assert.Equal(t, before, config())
	vms, _, mappings := u.inventory(t)
	assert.Empty(t, vms)
	assert.Equal(t, []string{"eight-a100_wk-gpu1"}, mappings, "the copy names it, and could not start without")
	u.asRoot(t, "pvesh", "delete", "/nodes/pve1/qemu/"+copied, "--purge", "1")
}

// shutLaptop stops a run twice: for a moment, which nobody notices, and for so long that a
// colleague takes over. Who wakes up then changes nothing any more, and says why.
func (u *user) shutLaptop(t *testing.T) {
	colleague := u.elsewhere(t)
	cmd, _, errs := u.command(t.Context(), "cluster:up")
	require.NoError(t, cmd.Start())
	begun := func(machines int) {
		u.eventually(t, fmt.Sprintf("%d machines are made", machines), func() bool {
			vms, _, _ := u.inventory(t)
			return len(vms) >= machines
		})
	}
	begun(1) // the template
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGSTOP))
	time.Sleep(5 * time.Second)
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT))
	begun(3)
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGSTOP))
	_, talk := colleague.must(t, "cluster:up")
	assert.Contains(t, talk, " changes cluster eight-a100; waiting until that is over.")
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT))
	assert.Error(t, cmd.Wait())
	u.said.WriteString(errs.String())
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), "%s", errs)
	assert.Contains(t, errs.String(), "stopped: this run no longer has the right to change the cluster")
	assert.Contains(t, errs.String(), "look at cluster:plan before you run it again")
	u.isWhole(t)
	u.must(t, "cluster:down", "-yes")
}

// eventually waits, for three minutes at most, until something is so.
func (u *user) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); time.Since(began) < 3*time.Minute; time.Sleep(100 * time.Millisecond) {
		if is() {
			return
		}
	}
	require.Fail(t, "waited three minutes in vain", what)
}

// vmid is the VMID of a machine of the cluster.
func (u *user) vmid(t *testing.T, name string) int {
	t.Helper()
	vms, err := u.proxmox(t).VMs.List(t.Context(), "homelab-eight-a100")
	require.NoError(t, err)
	for _, vm := range vms {
		if vm.Name == name {
			return vm.VMID
		}
	}
	require.Fail(t, "there is no such machine", name)
	return 0
}

// asRoot runs a command on the simulated host, as its owner does in its shell.
func (u *user) asRoot(t *testing.T, args ...string) string {
	t.Helper()
	lab, err := labctl.Find(t.Context(), u.lab())
	require.NoError(t, err)
	signer, err := ssh.LoadSigner(lab.Jump.KeyFile)
	require.NoError(t, err)
	open := func(addr, user, hostKey string, dial func(context.Context, string, string) (net.Conn, error)) *ssh.Client {
		key, err := ssh.ParseAuthorizedKey(hostKey)
		require.NoError(t, err)
		return ssh.New(ssh.Config{Addr: addr, User: user, Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key), Dial: dial})
	}
	jump := open(lab.Jump.Address, lab.Jump.User, lab.Jump.HostKey, nil)
	defer func() { _ = jump.Close() }()
	host := open(lab.Hosts["pve1"].Address, "root", lab.Hosts["pve1"].HostKey, jump.Dial)
	defer func() { _ = host.Close() }()
	out, err := remote.Output(t.Context(), host, args...)
	require.NoError(t, err, "%v", args)
	return string(out)
}

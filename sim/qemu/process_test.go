package qemu

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") != "" && os.Getenv("HOMELAB_NO_GUESTS") == "" { // .ci/run sets it where QEMU is not available
			require.NoError(t, err, "CI has it")
		}
		t.Skip("SKIPPED: " + program + " is not installed")
	}
}

// A QEMU without a machine comes up, is told things, and goes.
func TestQEMUIsStartedAndKilled(t *testing.T) {
	needs(t, "qemu-system-x86_64")
	bare := []string{"-machine", "none", "-display", "none", "-nodefaults",
		"-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control"}
	p, err := start(t.Context(), bare, func(event) {})
	require.NoError(t, err)
	out, err := p.monitor.do(t.Context(), "query-status", nil)
	require.NoError(t, err)
	assert.Contains(t, string(out), `"running": true`)
	require.ErrorContains(t, p.monitor.line(t.Context(), "device_add nonsense"), "nonsense")
	_, err = p.monitor.do(t.Context(), "device_del", map[string]any{"id": "scsi1"})
	require.ErrorContains(t, err, "Device 'scsi1' not found")
	p.kill()
	_, err = p.monitor.do(t.Context(), "query-status", nil)
	require.ErrorIs(t, err, errHungUp)

	_, err = start(t.Context(), append(bare, "-device", "nonsense"), func(event) {})
	require.ErrorContains(t, err, "start failed: QEMU: ")
	require.ErrorContains(t, err, "nonsense")
}

// A card's cable is the caller's at one end, and ends with QEMU at the other.
func TestACableEndsWithQEMU(t *testing.T) {
	needs(t, "qemu-system-x86_64")
	ours, theirs, err := pair()
	require.NoError(t, err)
	defer ours.Close()
	p, err := start(t.Context(), []string{"-machine", "none", "-display", "none", "-nodefaults",
		"-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control", "-netdev", "socket,id=net0,fd=5"}, func(event) {}, theirs)
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	p.kill()
	_, err = ours.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// Where there is no KVM somebody is told why, soon.
func TestKVMThatIsNotThere(t *testing.T) {
	needs(t, "qemu-system-x86_64")
	began := time.Now()
	err := KVM(t.Context(), Image{Kernel: filepath.Join(t.TempDir(), "none")})
	require.Error(t, err)
	assert.Less(t, time.Since(began), kvmTime)
}

// hypervisor has a small image.
func hypervisor(t *testing.T) *Hypervisor {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "disk.raw")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	h, err := New(Options{
		Image: Image{Disk: file}, Network: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1"), Dir: dir,
	})
	require.NoError(t, err)
	return h
}

func virtualSize(t *testing.T, file string) (size int64, below string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "qemu-img", "info", "--output=json", file).Output()
	require.NoError(t, err)
	var info struct {
		Size  int64  `json:"virtual-size"`
		Below string `json:"full-backing-filename"`
	}
	require.NoError(t, json.Unmarshal(out, &info))
	return info.Size, filepath.Base(info.Below)
}

// A disk has a file of its own from when a machine needs it, over what it was cloned from.
func TestDisksLieOnWhatTheyWereClonedFrom(t *testing.T) {
	needs(t, "qemu-img")
	h := hypervisor(t)
	_, err := h.Open([]byte("QFI\xfb something else"))
	require.Error(t, err)
	opened, err := h.Open(h.ImageFile())
	require.NoError(t, err)
	template := opened.(*disk)
	early := template.Clone().(*disk)

	file, err := template.use(t.Context(), 0)
	require.NoError(t, err)
	size, below := virtualSize(t, file)
	assert.Equal(t, int64(1<<20), size, "as large as the image")
	assert.Equal(t, "disk.raw", below)
	_, err = template.use(t.Context(), 0)
	require.ErrorContains(t, err, "another machine")
	_, err = template.Clone().(*disk).use(t.Context(), 0)
	require.ErrorContains(t, err, "cloned while a machine used it")
	template.release()

	clone := template.Clone().(*disk)
	cloned, err := clone.use(t.Context(), 8<<20)
	require.NoError(t, err)
	size, below = virtualSize(t, cloned)
	assert.Equal(t, int64(8<<20), size)
	assert.Equal(t, filepath.Base(file), below, "what the template had when it was cloned")
	again, err := template.use(t.Context(), 0)
	require.NoError(t, err)
	assert.NotEqual(t, file, again, "nobody writes where others read")
	clone.release()
	_, err = clone.use(t.Context(), 16<<20)
	require.NoError(t, err)
	size, _ = virtualSize(t, cloned)
	assert.Equal(t, int64(16<<20), size, "grown")

	_, err = early.use(t.Context(), 0)
	require.NoError(t, err)
	_, below = virtualSize(t, early.top.path)
	assert.Equal(t, "disk.raw", below)
	clone.Forget()
	assert.NoFileExists(t, cloned)
	assert.FileExists(t, file)
}

// A start that cannot be says why, and leaves the disks to others.
func TestAStartThatFails(t *testing.T) {
	h := hypervisor(t)
	b := board("q35", "10.1.2").Board
	b.Drives = []pvesim.Drive{{Key: "sata0", Disk: h.Blank()}}
	b.Seed = func() ([]byte, error) { return nil, nil }
	m := h.Plug(b)
	require.ErrorContains(t, m.Boot(t.Context()), "sata0")
	assert.False(t, m.AgentUp())
	_, err := m.AgentReadFile("/etc/hostname")
	require.ErrorIs(t, err, guest.ErrOff)
	m.Kill()
}

// answers plays a guest agent on a port: late is what it had to say to somebody else.
func answers(t *testing.T, late string) *agent {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	go func() {
		for in := bufio.NewReader(theirs); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			var q struct {
				Execute   string
				Arguments struct {
					ID   int
					Path string
				}
			}
			_ = json.Unmarshal([]byte(strings.TrimPrefix(line, "\xff")), &q)
			out := `{"return": {}}`
			switch {
			case q.Execute == "guest-sync-delimited":
				id, _ := json.Marshal(q.Arguments.ID)
				out = late + "\xff" + `{"return": ` + string(id) + "}"
			case q.Arguments.Path == "/none":
				out = `{"error": {"class": "GenericError", "desc": "failed to open file '/none' (mode: 'r'): No such file or directory"}}`
			case q.Execute == "guest-file-open":
				out = `{"return": 1000}`
			case q.Execute == "guest-file-read":
				out = `{"return": {"count": 2, "buf-b64": "aGk=", "eof": true}}`
			case q.Execute == "guest-exec-status":
				out = `{"return": {"exited": true, "exitcode": 3, "out-data": "aGk="}}`
			}
			if _, err := theirs.Write([]byte(out + "\n")); err != nil {
				return
			}
		}
	}()
	return newAgent(ours)
}

func TestTheAgentIsSpokenTo(t *testing.T) {
	for _, late := range []string{"", "{\"return\": {}}\n\xff{\"return\": 99}\n"} {
		a := answers(t, late)
		assert.True(t, a.ping())
		b, err := a.readFile("/etc/hostname")
		require.NoError(t, err)
		assert.Equal(t, "hi", string(b))
		_, err = a.readFile("/none")
		require.ErrorIs(t, err, os.ErrNotExist)
		st, err := a.status(7)
		require.NoError(t, err)
		assert.Equal(t, guest.ExecStatus{Exited: true, ExitCode: 3, Out: []byte("hi")}, st)
	}
}

func TestAnAgentThatDoesNotAnswer(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	a := newAgent(ours)
	require.ErrorIs(t, a.ask(50*time.Millisecond, "guest-ping", nil, nil), guest.ErrNoAgent)
}

// Who is not root is given what root has to do, and no more than that.
func TestAnImageByRoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache", "debian-13-x")
	require.EqualError(t, byRoot(dir), strings.ReplaceAll("a system's files are root's, so root makes the image, once and in two or three minutes:\n"+
		"  mkdir DIR.new && sudo sh DIR.sh DIR.new && mv DIR.new DIR", "DIR", dir))
	script, err := os.ReadFile(dir + ".sh")
	require.NoError(t, err)
	assert.Equal(t, imageScript, string(script))
}

func TestTheImagesScriptPassesShellcheck(t *testing.T) {
	needs(t, "shellcheck")
	out, err := exec.CommandContext(t.Context(), "shellcheck", "image.sh").CombinedOutput()
	assert.NoError(t, err, string(out))
}

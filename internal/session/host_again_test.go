package session

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// meanwhile is a terminal at which things happen before each answer.
type meanwhile struct {
	answers []string
	happens func()
}

func (m *meanwhile) Read(p []byte) (int, error) {
	if len(m.answers) == 0 {
		return 0, io.EOF
	}
	m.happens()
	n := copy(p, m.answers[0]+"\n")
	m.answers = m.answers[1:]
	return n, nil
}

// twoHosts are pve1 and pve2 as the installer leaves them, with a node on each.
func twoHosts(t *testing.T) *hostSite {
	m := pvesim.TwoHosts()
	m.Roles, m.Users, m.Tokens, m.ACLs = nil, nil, nil, nil
	for i := range m.Hosts {
		m.Hosts[i].OS = pvesim.HostOS{Fresh: true, Loader: "grub"}
	}
	w := newHostSite(t, m, "file:DIR/token")
	w.spec = strings.ReplaceAll(w.spec, "gpus: 1}", "gpus: 1}\n  two: {count: 1, host: pve2, addresses: [10.0.0.22], gpus: 1}")
	signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
	require.NoError(t, err)
	w.way = func(ctx context.Context, host string) (ssh.Config, error) {
		shell, err := w.sim.HostShell(ctx, host, ssh.AuthorizedKey(signer.PublicKey()))
		if err != nil {
			return ssh.Config{}, err
		}
		key, err := ssh.ParseAuthorizedKey(shell.HostKey)
		return ssh.Config{Addr: shell.Address.String(), User: "root", Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key), Dial: w.sim.Network().Dial}, err
	}
	return w
}

// shell is root's on a host.
func (w *hostSite) shell(host string) *ssh.Client {
	w.t.Helper()
	cfg, err := w.way(w.t.Context(), host)
	require.NoError(w.t, err)
	client := ssh.New(cfg)
	w.t.Cleanup(func() { _ = client.Close() })
	return client
}

// file is what is in one of a host.
func (w *hostSite) file(host, path string) []byte {
	w.t.Helper()
	text, err := remote.ReadFile(w.t.Context(), w.shell(host), path)
	require.NoError(w.t, err)
	return text
}

// teacher prepares a host by herself.
func (w *hostSite) teacher(host string) *converge.Lease {
	w.t.Helper()
	prep := &hostprep.Prep{Hosts: []string{host}, Root: map[string]remote.Runner{host: w.shell(host)}}
	_, l, err := converge.AcquireLease(w.t.Context(), prep.Leases()[0].LeaseStore, converge.LeaseClaim{What: "host " + host, Holder: "teacher@desk", Purpose: "host:prep"}, nil)
	require.NoError(w.t, err)
	return l
}

// TestPreparationsMeetOnEveryHost: a run for one of several hosts meets a run for all of them,
// whichever host it is.
func TestPreparationsMeetOnEveryHost(t *testing.T) {
	for _, host := range []string{"pve1", "pve2"} {
		synctest.Test(t, func(t *testing.T) {
			w := twoHosts(t)
			teacher := w.teacher(host)
			err := w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true, NoWait: true}})
			assert.Equal(t, refused, code(err))
			require.ErrorContains(t, err, "nothing was changed: ")
			require.ErrorContains(t, err, " changes host "+host)
			for _, name := range []string{"pve1", "pve2"} {
				text, err := remote.Output(t.Context(), w.shell(name), "ls", "/var/lib")
				require.NoError(t, err)
				assert.Equal(t, name == host, strings.Contains(string(text), "lease"), "%s: what was taken is given back", name)
			}
			other := map[string]string{"pve1": "pve2", "pve2": "pve1"}[host]
			assert.Equal(t, pending, code(w.prep(Options{}, HostPrepFlags{HostFlags: HostFlags{Host: other}, ChangeFlags: ChangeFlags{Yes: true, NoWait: true}})), "she is not at work there")
			require.NoError(t, teacher.Release(t.Context()))
			assert.Equal(t, pending, code(w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true, NoWait: true}})))
		})
	}
}

// start has another owner's VM run on pve1, of which the simulated host itself knows nothing
// before it boots.
func (w *hostSite) start(root remote.Runner, id int) {
	w.sim.AddVM(pvesim.VM{ID: id, Node: "pve1", Name: "nas", Running: true, Config: map[string]string{"onboot": "1", "memory": "2048"}})
	assert.NoError(w.t, remote.WriteFile(w.t.Context(), root, fmt.Sprintf("/run/qemu-server/%d.pid", id), []byte("1\n"), 0o644))
}

// TestAMachineStartedMeanwhile: a reboot stops nothing that was not listed in the question.
func TestAMachineStartedMeanwhile(t *testing.T) {
	booted := func(w *hostSite) string {
		return strings.TrimSpace(string(w.file("pve1", "/proc/sys/kernel/random/boot_id")))
	}
	prepared := func(t *testing.T) *hostSite {
		w := newHostSite(t, freshHost("grub"), "file:DIR/token")
		require.Equal(t, pending, code(w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}})))
		return w
	}
	t.Run("while somebody was asked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := prepared(t)
			before, id := booted(w), 100
			root := w.shell("pve1")
			start := func() { w.start(root, id); id++ }
			w.keys = &meanwhile{answers: []string{"pve1", "no"}, happens: start}
			assert.Equal(t, refused, code(w.prep(Options{}, HostPrepFlags{})))
			assert.Contains(t, w.talk.String(), "\n  VM 100 on pve1 is stopped\nDo this too? Type yes: ")
			assert.Equal(t, before, booted(w))
			w.keys = &meanwhile{answers: []string{"pve1", "yes"}, happens: func() {
				if id < 103 {
					start() // VM 102, before the first question's answer
					id = 103
				}
			}}
			require.NoError(t, w.prep(Options{}, HostPrepFlags{}))
			assert.Contains(t, w.talk.String(), "runs there: VM 100, VM 101.", "they were shown, and not again")
			assert.Contains(t, w.talk.String(), "this would be done too:\n  VM 102 on pve1 is stopped\nDo this")
			assert.NotEqual(t, before, booted(w))
		})
	})
	waits := func(t *testing.T, f HostPrepFlags) (*hostSite, error, bool) {
		w := prepared(t)
		before := booted(w)
		teacher, root := w.teacher("pve1"), w.shell("pve1")
		time.AfterFunc(time.Minute, func() {
			w.start(root, 100)
			_ = teacher.Release(t.Context())
		})
		err := w.prep(Options{}, f)
		return w, err, booted(w) != before
	}
	t.Run("while it waited", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, err, rebooted := waits(t, HostPrepFlags{Reboot: true})
			assert.Equal(t, refused, code(err))
			assert.ErrorContains(t, err, "nothing was changed: ")
			assert.ErrorContains(t, err, "VM 100 on pve1 is stopped\nrun it again")
			assert.False(t, rebooted)
		})
	})
	t.Run("and all is agreed to", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, err, rebooted := waits(t, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}, Reboot: true})
			require.NoError(t, err)
			assert.Contains(t, w.talk.String(), "VM 100 on pve1 is stopped", "it is said")
			assert.True(t, rebooted)
		})
	})
}

// TestAFileChangedMeanwhile: what was agreed to is what was shown.
func TestAFileChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHostSite(t, freshHost("grub"), "file:DIR/token")
		const grub = "/etc/default/grub"
		root := w.shell("pve1")
		edit := func() {
			text := w.file("pve1", grub)
			require.NoError(t, remote.WriteFile(t.Context(), root, grub, bytes.Replace(text, []byte("quiet"), []byte("quiet nosmt"), 1), 0o644))
		}
		w.keys = &meanwhile{answers: []string{"yes", "no"}, happens: edit}
		assert.Equal(t, refused, code(w.prep(Options{}, HostPrepFlags{})))
		assert.Contains(t, w.talk.String(), `too:`+"\n  "+`pve1: /etc/default/grub: GRUB_CMDLINE_LINUX_DEFAULT="quiet nosmt" → GRUB_CMDLINE_LINUX_DEFAULT="quiet nosmt iommu=pt"`)
		assert.NoFileExists(t, filepath.Join(w.dir, "token"), "nothing at all was done")
	})
}

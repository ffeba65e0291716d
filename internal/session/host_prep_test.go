package session

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

const prepSpec = `
name: lab1
proxmox: {endpoint: "https://192.0.2.1:8006", token: homelab@pve!cluster, secret: "SECRET", host: pve1}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
defaults: {storage: vmdata}
pools:
  server: {role: server, count: 1, addresses: [10.0.0.11]}
  gpu: {count: 1, addresses: [10.0.0.21], gpus: 1}
`

// hostSite is a simulated host on which host:prep is run, each time as a process of
// its own.
type hostSite struct {
	t          *testing.T
	sim        *pvesim.Sim
	dir        string
	spec       string
	way        func(context.Context, string) (ssh.Config, error)
	keys       io.Reader    // where answers come from; nil: nobody is here
	talk, data bytes.Buffer // of the last command
	everything strings.Builder
}

// freshHost is one host as the installer leaves it.
func freshHost(loader string) pvesim.Model {
	m := pvesim.OneGPU()
	m.Roles, m.Users, m.Tokens, m.ACLs = nil, nil, nil, nil
	h := &m.Hosts[0]
	h.OS = pvesim.HostOS{Fresh: true, Loader: loader, Console: "0000:01:00.0"}
	h.Storages[0].Content = []string{"iso", "vztmpl", "backup"}
	return m
}

func newHostSite(t *testing.T, m pvesim.Model, secretRef string) *hostSite {
	w := &hostSite{t: t, sim: pvesim.New(m, pvesim.Options{}), dir: t.TempDir()}
	t.Cleanup(w.sim.Close)
	w.spec = strings.ReplaceAll(prepSpec, "SECRET", strings.ReplaceAll(secretRef, "DIR", w.dir))
	key := filepath.Join(w.dir, "id_ed25519")
	require.NoError(t, makeKey(key))
	signer, err := ssh.LoadSigner(key)
	require.NoError(t, err)
	shell, err := w.sim.HostShell(t.Context(), "pve1", ssh.AuthorizedKey(signer.PublicKey()))
	require.NoError(t, err)
	host, err := ssh.ParseAuthorizedKey(shell.HostKey)
	require.NoError(t, err)
	w.way = func(context.Context, string) (ssh.Config, error) {
		return ssh.Config{Addr: shell.Address.String(), User: "root", Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(host), Dial: w.sim.Network().Dial}, nil
	}
	return w
}

func (w *hostSite) prep(o Options, f HostPrepFlags) error {
	w.t.Helper()
	w.talk.Reset()
	w.data.Reset()
	spec, err := cluster.Parse("cluster.yaml", []byte(w.spec))
	require.NoError(w.t, err)
	s := &Session{
		Console: &console.Console{Talk: &w.talk, Data: &w.data, JSON: o.JSON, Redact: &secret.Redactor{}},
		opt:     o, Spec: spec, hostWay: w.way, keys: w.keys,
	}
	defer s.Close()
	err = hostPrep(s, w.t.Context(), f)
	w.everything.WriteString(w.talk.String() + w.data.String())
	if err != nil {
		w.everything.WriteString(err.Error())
	}
	return err
}

// TestHostPrepPlan holds the plans that an admin reads, on hosts as they were
// installed, and that nothing at all happens to a host for it.
func TestHostPrepPlan(t *testing.T) {
	for _, loader := range []string{"grub", "systemd-boot"} {
		t.Run(loader, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHostSite(t, freshHost(loader), "file:DIR/token")
				err := w.prep(Options{}, HostPrepFlags{})
				assert.Equal(t, refused, code(err), "nobody was asked")
				golden(t, "host-prep-"+loader+".txt", w.data.String())
				require.Error(t, w.prep(Options{}, HostPrepFlags{}))
				golden(t, "host-prep-"+loader+".txt", w.data.String())
				assert.NoFileExists(t, filepath.Join(w.dir, "token"))
			})
		})
	}
}

func TestHostPrepFromInstallerToToken(t *testing.T) {
	for _, loader := range []string{"grub", "systemd-boot", "esp-grub"} {
		t.Run(loader, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHostSite(t, freshHost(loader), "file:DIR/token")
				err := w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}})
				assert.Equal(t, pending, code(err))
				assert.ErrorContains(t, err, "reboot pve1, then run host:prep again")
				assert.Contains(t, w.talk.String(), "nothing else runs there")

				info, err := os.Stat(filepath.Join(w.dir, "token"))
				require.NoError(t, err)
				assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
				token, err := secret.FromFile(filepath.Join(w.dir, "token"))
				require.NoError(t, err)

				assert.Equal(t, pending, code(w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}})), "it still waits")
				assert.Contains(t, w.data.String(), "Nothing to change.")
				require.NoError(t, w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}, Reboot: true}))
				assert.Contains(t, w.talk.String(), "Prepared: pve1. Nothing waits for a reboot.")
				require.NoError(t, w.prep(Options{}, HostPrepFlags{}), "nothing is left to ask about")

				assert.NotContains(t, w.everything.String(), token.Reveal())
				files, err := os.ReadDir(w.dir)
				require.NoError(t, err)
				assert.False(t, slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.HasPrefix(f.Name(), ".token") }), "nothing half made stays")
			})
		})
	}
}

func TestHostPrepToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHostSite(t, freshHost("grub"), "env:HOMELAB_NO_SUCH_SECRET")
		err := w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}})
		assert.Equal(t, invalid, code(err), "there is no terminal here")
		assert.ErrorContains(t, err, "add -out=FILE")

		out := filepath.Join(w.dir, "out")
		assert.Equal(t, pending, code(w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}, Out: out})))
		first, err := secret.FromFile(out)
		require.NoError(t, err)

		// It is there, and not where the file says.
		require.Equal(t, pending, code(w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}})))
		assert.Contains(t, strings.Join(strings.Fields(w.data.String()), " "), "Problems: the token homelab@pve!cluster exists, but its secret, which Proxmox shows only once, is missing: environment variable HOMELAB_NO_SUCH_SECRET is not set")
		assert.Equal(t, invalid, code(w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}, Out: out, Force: true})), "no file is overwritten")
		require.NoError(t, os.Remove(out))
		require.Equal(t, pending, code(w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}, Out: out, Force: true})))
		assert.Regexp(t, `(?s)\$ pveum user token delete .*\$ pveum acl modify /vms --tokens`, w.data.String(), "what was granted to the old one is granted again, and said")
		second, err := secret.FromFile(out)
		require.NoError(t, err)
		assert.NotEqual(t, first.Reveal(), second.Reveal())
		t.Setenv("HOMELAB_NO_SUCH_SECRET", second.Reveal())
		require.NoError(t, w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}, Force: true, Reboot: true}), "-force makes no second one where the secret is known")
		assert.NotContains(t, w.everything.String(), first.Reveal())
		assert.NotContains(t, w.everything.String(), second.Reveal())
	})
}

// TestFirstContact: a host's key is compared with what a person has read elsewhere,
// or it is not spoken to.
func TestFirstContact(t *testing.T) {
	w := newHostSite(t, pvesim.OneGPU(), "file:DIR/token")
	cfg, err := w.way(t.Context(), "pve1")
	require.NoError(t, err)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := cfg.Dial(t.Context(), "tcp", cfg.Addr)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	keys, err := cfg.HostKeys(t.Context(), cfg.Addr)
	require.NoError(t, err)
	fingerprint := ssh.Fingerprint(keys[0])

	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", "")
	w.way = nil // as a real site
	f := HostPrepFlags{HostFlags: HostFlags{SSH: "root@" + l.Addr().String()}, ChangeFlags: ChangeFlags{Yes: true}}
	err = w.prep(Options{}, f)
	assert.Equal(t, invalid, code(err))
	assert.ErrorContains(t, err, "no key to log in with")
	require.NoError(t, os.Mkdir(filepath.Join(home, ".ssh"), 0o700))
	require.NoError(t, os.Link(filepath.Join(w.dir, "id_ed25519"), filepath.Join(home, ".ssh", "id_ed25519")))

	err = w.prep(Options{}, f)
	assert.Equal(t, refused, code(err))
	assert.ErrorContains(t, err, "it shows "+fingerprint+" (ssh-ed25519). Compare that")
	f.Fingerprint = "SHA256:somebodyElse"
	assert.Equal(t, refused, code(w.prep(Options{}, f)))
	assert.NoFileExists(t, filepath.Join(home, ".ssh", "known_hosts"))
	f.Fingerprint = fingerprint
	require.NoError(t, w.prep(Options{}, f))
	f.Fingerprint = ""
	require.NoError(t, w.prep(Options{}, f), "known from now on")

	other, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(home, "other"), other, 0o600))
	signer, err := ssh.LoadSigner(filepath.Join(home, "other"))
	require.NoError(t, err)
	require.NoError(t, ssh.NewKnownHosts(filepath.Join(home, ".ssh", "known_hosts")).Store(l.Addr().String(), signer.PublicKey()))
	err = w.prep(Options{}, f)
	assert.ErrorContains(t, err, "somebody intercepts")
}

func TestHostPrepFlags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHostSite(t, freshHost("grub"), "file:DIR/token")
		err := w.prep(Options{}, HostPrepFlags{HostFlags: HostFlags{Host: "pve9"}})
		assert.Equal(t, invalid, code(err))
		assert.ErrorContains(t, err, "-host=pve9: the file has no such host; it has pve1")

		assert.Equal(t, refused, code(w.prep(Options{JSON: true}, HostPrepFlags{})))
		plans := objects(t, w.data.Bytes())
		require.Len(t, plans, 2)
		assert.Equal(t, "pve1", plans[0]["host"])
		assert.Len(t, plans[0]["changes"], 4)
		assert.Len(t, plans[1]["changes"], 4)
		assert.Len(t, plans[1]["token"], 1)

		w.data.Reset()
		require.NoError(t, w.prep(Options{JSON: true}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}, Reboot: true}))
		w.data.Reset()
		require.NoError(t, w.prep(Options{JSON: true}, HostPrepFlags{}))
		for _, p := range objects(t, w.data.Bytes()) {
			assert.Equal(t, []any{}, p["changes"], "nothing to change is a list, too")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := freshHost("grub")
		m.Hosts[0].Name = "other"
		w := &hostSite{t: t, sim: pvesim.New(m, pvesim.Options{}), dir: t.TempDir(), spec: strings.ReplaceAll(prepSpec, "SECRET", "env:X")}
		defer w.sim.Close()
		require.NoError(t, makeKey(filepath.Join(w.dir, "id_ed25519")))
		signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
		require.NoError(t, err)
		shell, err := w.sim.HostShell(t.Context(), "other", ssh.AuthorizedKey(signer.PublicKey()))
		require.NoError(t, err)
		key, err := ssh.ParseAuthorizedKey(shell.HostKey)
		require.NoError(t, err)
		w.way = func(context.Context, string) (ssh.Config, error) {
			return ssh.Config{Addr: shell.Address.String(), User: "root", Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key), Dial: w.sim.Network().Dial}, nil
		}
		assert.ErrorContains(t, w.prep(Options{}, HostPrepFlags{}), "host pve1: the machine's host name is other")
	})
}

// TestHostPrepNamesWhatARebootStops: anyone who is asked knows what it costs.
func TestHostPrepNamesWhatARebootStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := freshHost("grub")
		m.VMs = []pvesim.VM{{ID: 100, Node: "pve1", Name: "nas", Running: true, Config: map[string]string{"onboot": "1", "memory": "2048"}}}
		w := newHostSite(t, m, "file:DIR/token")
		require.Equal(t, pending, code(w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}})))
		assert.Contains(t, w.talk.String(), "a reboot stops what runs there: VM 100")
		require.NoError(t, w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}, Reboot: true}))
		time.Sleep(time.Minute)
		assert.True(t, w.sim.VMs()[0].Running, "it starts with the host")
	})
}

// TestHostPrepBeforeThereIsAFile: all that is known of the site is an address.
func TestHostPrepBeforeThereIsAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHostSite(t, freshHost("systemd-boot"), "file:DIR/token")
		t.Chdir(w.dir)
		first := func(f HostPrepFlags) error {
			w.talk.Reset()
			w.data.Reset()
			f.SSH = "root@192.0.2.1"
			s := &Session{Console: &console.Console{Talk: &w.talk, Data: &w.data, Redact: &secret.Redactor{}}, hostWay: w.way}
			defer s.Close()
			return hostPrepFirst(s, t.Context(), f)
		}
		require.NoError(t, first(HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true}, Reboot: true}), w.talk.String())
		assert.Contains(t, w.talk.String(), "\n  go tool mage cluster:init -endpoint=https://192.0.2.1:8006 -token='homelab@pve!cluster' -secret=file:.homelab/homelab/proxmox-token\n")
		token, err := secret.FromFile(filepath.Join(".homelab", "homelab", "proxmox-token"))
		require.NoError(t, err)
		require.NoError(t, first(HostPrepFlags{}), "the second time nothing is left to ask about")
		err = first(HostPrepFlags{HostFlags: HostFlags{Host: "pve7"}})
		assert.ErrorContains(t, err, "the machine at root@192.0.2.1 has the host name pve1")

		// What cluster:init looks at.
		pve, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: "homelab@pve!cluster", TokenSecret: token, HTTPClient: w.sim.Client()})
		require.NoError(t, err)
		storages, err := pve.Storages.List(t.Context(), "pve1")
		require.NoError(t, err)
		assert.Len(t, storages, 2)
		gpus, err := pve.PCI.GPUs(t.Context(), "pve1")
		require.NoError(t, err)
		assert.Len(t, gpus, 1)
	})
}

// TestOnePreparationAtATime: two people who prepare a host take turns, on the host itself.
func TestOnePreparationAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHostSite(t, freshHost("grub"), "file:DIR/token")
		cfg, err := w.way(t.Context(), "pve1")
		require.NoError(t, err)
		shell := ssh.New(cfg)
		defer func() { _ = shell.Close() }()
		prep := &hostprep.Prep{Hosts: []string{"pve1"}, Root: map[string]remote.Runner{"pve1": shell}}
		_, l, err := converge.AcquireLease(t.Context(), prep.Leases()[0].LeaseStore, converge.LeaseClaim{What: "host pve1", Holder: "teacher@desk", Purpose: "host:prep"}, nil)
		require.NoError(t, err)
		err = w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true, NoWait: true}})
		assert.Equal(t, refused, code(err))
		require.ErrorContains(t, err, "teacher@desk since ")
		require.NoError(t, l.Release(t.Context()))
		assert.Equal(t, pending, code(w.prep(Options{}, HostPrepFlags{ChangeFlags: ChangeFlags{Yes: true, NoWait: true}})), "it is prepared, and waits for a reboot")
		text, err := remote.Output(t.Context(), shell, "ls", "/var/lib")
		require.NoError(t, err)
		assert.NotContains(t, string(text), "lease")
	})
}

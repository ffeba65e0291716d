package session

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/labneeds"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// door is a Proxmox VE behind a certificate of its own, which notes who comes.
type door struct {
	t      *testing.T
	server *httptest.Server
	came   string // the last login
}

func newDoor(t *testing.T) *door {
	sim := pvesim.New(pvesim.OneGPU(), pvesim.Options{})
	t.Cleanup(sim.Close)
	w := &door{t: t}
	w.server = httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		w.came = in.Host + " " + in.Header.Get("Authorization")
		sim.Handler().ServeHTTP(out, in)
	}))
	t.Cleanup(w.server.Close)
	id, token := sim.Token()
	t.Setenv("SITE_TOKEN", token)
	require.Equal(t, "homelab@pve!operator", id)
	return w
}

// way is how a session with this file goes to its hosts and machines.
func (w *door) way(text string) string {
	text = strings.NewReplacer("ENDPOINT", w.server.URL, "FINGERPRINT", proxmox.Fingerprint(w.server.Certificate())).Replace(text)
	want, err := cluster.Parse("cluster.yaml", []byte("name: way\nnetwork: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}\n"+
		"pools:\n  cp: {role: server, count: 1, addresses: [10.0.0.11], memory: 2GiB, host: pve1}\n"+text))
	require.NoError(w.t, err, text)
	s := &Session{Console: &console.Console{Talk: &strings.Builder{}, Redact: &secret.Redactor{}}, Spec: want}
	var out strings.Builder
	if want.IsLab() {
		guests := labneeds.NeedsOf(want).Guests
		return fmt.Sprintln(guests.Real(), guests.Internet, guests.Image, guests.Kubernetes)
	}
	w.came = ""
	_, err = s.dial(w.t.Context())
	fmt.Fprintln(&out, w.came, err)
	if ask := s.rootPassword(); ask != nil {
		password, err := ask(w.t.Context())
		fmt.Fprintln(&out, "root is", want.Proxmox.User, password.Reveal(), err)
	}
	b := cluster.Backend{Dir: "nowhere"}
	if err == nil {
		fmt.Fprintln(&out, s.openSite(w.t.Context(), &b), b.Via, b.ProxyURL, b.Agent)
		for _, signer := range append(b.Signers, b.TokenKey) {
			if signer != nil {
				fmt.Fprintln(&out, ssh.Fingerprint(signer.PublicKey()))
			}
		}
	}
	fmt.Fprintln(&out, s.hostAddress(HostFlags{}, "pve1").Addr)
	return out.String()
}

// TestEveryKeyOfTheWay: each key that says how to reach hosts and machines changes how a session
// does it. TestEveryKeyDoesSomething in package cluster has the other keys.
func TestEveryKeyOfTheWay(t *testing.T) {
	w := newDoor(t)
	further := httptest.NewTLSServer(w.server.Config.Handler)
	t.Cleanup(further.Close)
	t.Chdir(t.TempDir()) // where no lab runs
	bin := t.TempDir()
	for _, program := range []string{"qemu-system-x86_64", "qemu-img"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"), 0o700))
	}
	for name, value := range map[string]string{"PATH": bin, "SSH_AUTH_SOCK": "/run/agent", "SITE_OTHER": "wrong", "HOME": t.TempDir()} {
		t.Setenv(name, value)
	}
	require.NoError(t, makeKey("mine"))
	other, _, err := pvesim.New(pvesim.OneGPU(), pvesim.Options{}).TLS()
	require.NoError(t, err)
	for file, der := range map[string][]byte{"site.pem": w.server.Certificate().Raw, "other.pem": other.Certificate[0]} {
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	}
	for _, image := range []string{"image", "other"} {
		require.NoError(t, os.Mkdir(image, 0o700))
		for _, file := range []string{"disk.raw", "vmlinuz", "initrd"} {
			require.NoError(t, os.WriteFile(filepath.Join(image, file), nil, 0o600))
		}
	}
	const (
		trusted = "proxmox: {endpoint: ENDPOINT, token: homelab@pve!operator, secret: env:SITE_TOKEN, insecure: true"
		inLab   = "proxmox: {endpoint: lab}\nk3s: {airgap: image}\n"
		keys    = "ssh: {publicKeys: [mine.pub], "
	)
	signer, err := ssh.LoadSigner("mine")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("mine.pub", []byte(ssh.AuthorizedKey(signer.PublicKey())+"\n"), 0o600))
	pin := strings.Replace(trusted, "insecure: true", "fingerprint: 'FINGERPRINT'}\n", 1)
	for _, c := range []struct{ key, before, after, shows string }{
		{"proxmox.endpoint", trusted + "}\n", strings.Replace(trusted, "ENDPOINT", further.URL, 1) + "}\n",
			further.Listener.Addr().String() + " PVEAPIToken"},
		{"proxmox.token", trusted + "}\n", strings.Replace(trusted, "operator", "other", 1) + "}\n", "homelab@pve!other"},
		{"proxmox.secret", trusted + "}\n", strings.Replace(trusted, "SITE_TOKEN", "SITE_OTHER", 1) + "}\n", "homelab@pve!operator=wrong"},
		{"proxmox.insecure", strings.Replace(trusted, "true", "false", 1) + "}\n", trusted + "}\n", "<nil>"},
		{"proxmox.fingerprint", pin, strings.Replace(pin, "FINGERPRINT", strings.Repeat("ab", 32), 1), "fingerprint"},
		{"proxmox.ca", strings.Replace(trusted, "insecure: true", "ca: other.pem", 1) + "}\n",
			strings.Replace(trusted, "insecure: true", "ca: site.pem", 1) + "}\n", "<nil>"},
		{"proxmox.user", trusted + ", user: root@pam, password: env:SITE_OTHER}\n", trusted + ", user: teacher@pam, password: env:SITE_OTHER}\n",
			"root is teacher@pam wrong"},
		{"proxmox.password", trusted + ", user: root@pam}\n", trusted + ", user: root@pam, password: env:SITE_OTHER}\n",
			"root is root@pam wrong"},
		{"proxmox.hosts.pve1.ssh", trusted + "}\n", trusted + ", hosts: {pve1: {ssh: 'teacher@10.0.0.5:2222'}}}\n", "10.0.0.5:2222"},
		{"ssh.agent", trusted + "}\n", trusted + "}\n" + keys + "agent: true}\n", "/run/agent"},
		{"ssh.privateKey", trusted + "}\n", trusted + "}\n" + keys + "privateKey: mine}\n", ssh.Fingerprint(signer.PublicKey())},
		{"ssh.jump", trusted + "}\n", trusted + "}\nssh: {jump: teacher@bastion}\n", "jump host teacher@bastion:22"},
		{"ssh.proxy", trusted + "}\n", trusted + "}\nssh: {proxy: 'socks5://10.0.0.9:1080'}\n", "proxy 10.0.0.9:1080 socks5://10.0.0.9:1080"},
		{"lab.guests", inLab, inLab + "lab: {guests: qemu, image: image}\n", "true false image"},
		{"lab.kubernetes", inLab, inLab + "lab: {kubernetes: real}\n", "false false  true"},
		{"lab.image", inLab + "lab: {guests: qemu, image: image}\n", inLab + "lab: {guests: qemu, image: other}\n", "true false other"},
		{"lab.internet", inLab + "lab: {guests: qemu, image: image}\n", inLab + "lab: {guests: qemu, image: image, internet: true}\n",
			"true true image"},
	} {
		before, after := w.way(c.before), w.way(c.after)
		assert.NotContains(t, before, c.shows, c.key)
		assert.Contains(t, after, c.shows, c.key)
	}
}

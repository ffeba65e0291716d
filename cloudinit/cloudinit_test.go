package cloudinit

import (
	"bytes"
	"encoding/base64"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/iso"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func worker() Machine {
	return Machine{
		Hostname:       "wk-gpu1",
		User:           "admin",
		AuthorizedKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8qEhn0W2aE0lcXOvJHcqyqGjTRW9aTfGHLnrJWYlgd admin@example"},
		MAC:            "BC:24:11:AA:00:21",
		Address:        netip.MustParsePrefix("10.0.0.21/24"),
		Gateway:        netip.MustParseAddr("10.0.0.1"),
		DNS:            []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("9.9.9.9")},
		Search:         []string{"lab.example"},
		MTU:            9000,
		Disks:          []Mount{{Serial: "scratch", Path: "/scratch"}, {Serial: "data-1", FS: "xfs", Path: "/var/lib/longhorn"}},
		Packages:       []string{"nfs-common", "open-iscsi"},
		Sysctls:        map[string]string{"vm.swappiness": "10"},
		KernelModules:  []string{"nvidia_uvm", "overlay"},
		Files: []File{
			{Path: "/etc/motd", Content: []byte("hello: world # not a comment\n\tindented\n"), Mode: 0o600},
			{Path: "/opt/blob", Content: []byte{0, 1, 2, 255}},
			{Path: "/home/admin/note", Content: []byte("no newline"), Owner: "admin:admin"},
		},
		APTProxy: "http://10.0.0.30:3142",
		Timezone: "Europe/Berlin",
	}
}

func server() Machine {
	return Machine{
		Hostname:       "cp1",
		AuthorizedKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8qEhn0W2aE0lcXOvJHcqyqGjTRW9aTfGHLnrJWYlgd admin@example"},
		PasswordHash:   "$6$saltsalt$notarealhash",
		MAC:            "02:00:00:00:00:11",
		APTMirror:      "http://de.archive.ubuntu.com/ubuntu",
	}
}

func bake() Bake {
	return Bake{
		Hostname:   "k3s-template",
		Packages:   []string{"nfs-common", "linux-generic"},
		Holds:      []string{"linux-generic"},
		APTSources: []APTSource{{Name: "example", Line: "deb [signed-by=$KEY_FILE] https://packages.example/deb /", Key: "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBF\n-----END PGP PUBLIC KEY BLOCK-----\n"}},
		Upgrade:    true,
		Files:      []File{{Path: "/etc/apt/apt.conf.d/51no-recommends", Content: []byte("APT::Install-Recommends \"0\";\n")}},
		Commands:   [][]string{{"systemctl", "disable", "--now", "multipathd.service"}},
	}
}

// rendered is every document that the tests below look at.
func rendered(t testing.TB) map[string]NoCloud {
	t.Helper()
	w, err := RenderWorker(worker())
	require.NoError(t, err)
	s, err := RenderServer(server())
	require.NoError(t, err)
	b, err := RenderTemplate(bake())
	require.NoError(t, err)
	windows, err := RenderWindows(worker())
	require.NoError(t, err)
	installed, err := RenderWindows(installation())
	require.NoError(t, err)
	return map[string]NoCloud{"worker": w, "server": s, "template": b, "windows": windows, "installed": installed}
}

func TestGolden(t *testing.T) {
	for name, n := range rendered(t) {
		files, err := n.Files()
		require.NoError(t, err)
		for file, got := range files {
			path := filepath.Join("testdata", name+"."+file)
			if filepath.Ext(file) == "" {
				path += ".yaml"
			}
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(path, got, 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err, "run the test with -update")
			assert.Equal(t, string(want), string(got), path)
		}
	}
}

// What is read back is what was meant, through a YAML reader.
func TestRoundTrip(t *testing.T) {
	for name, n := range rendered(t) {
		files, err := n.Files()
		require.NoError(t, err)
		var u UserData
		require.NoError(t, yaml.UnmarshalWithOptions(files["user-data"], &u, yaml.Strict()), name)
		if len(n.UserData.Users) == 0 {
			n.UserData.Users, u.Users = nil, nil
		}
		assert.Equal(t, n.UserData, u, name)
		var m MetaData
		require.NoError(t, yaml.UnmarshalWithOptions(files["meta-data"], &m, yaml.Strict()), name)
		assert.Equal(t, n.MetaData, m, name)
	}
}

func TestISO(t *testing.T) {
	for name, n := range rendered(t) {
		image, err := n.ISO()
		require.NoError(t, err, name)
		again, err := n.ISO()
		require.NoError(t, err, name)
		assert.True(t, bytes.Equal(image, again), name)

		files, label, err := iso.Read(image)
		require.NoError(t, err, name)
		assert.Equal(t, seedLabel, label)
		want, err := n.Files()
		require.NoError(t, err)
		assert.Equal(t, want, files)
	}
}

func TestInstanceIDFollowsContent(t *testing.T) {
	a, err := RenderWorker(worker())
	require.NoError(t, err)
	same, err := RenderWorker(worker())
	require.NoError(t, err)
	assert.Equal(t, a, same)
	assert.Regexp(t, `^wk-gpu1-[0-9a-f]{12}$`, a.MetaData.InstanceID)

	changed := worker()
	changed.MTU = 1500
	b, err := RenderWorker(changed)
	require.NoError(t, err)
	assert.NotEqual(t, a.MetaData.InstanceID, b.MetaData.InstanceID)

	changed.InstanceID = "fixed"
	c, err := RenderWorker(changed)
	require.NoError(t, err)
	assert.Equal(t, "fixed", c.MetaData.InstanceID)
}

func TestDigestKeepsPartsApart(t *testing.T) {
	assert.NotEqual(t, Digest([]byte("ab"), []byte("c")), Digest([]byte("a"), []byte("bc")))
	assert.NotEqual(t, Digest(), Digest(nil))
	assert.Len(t, Digest(), 64)
}

// A rented host's router is outside of the address's network: the route says on-link, and only
// there.
func TestGatewayOutsideOfTheNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"203.0.113.7/32":   "via: 198.51.100.1\n        on-link: true\n",
		"203.0.113.9/29":   "via: 198.51.100.1\n        on-link: true\n",
		"198.51.100.7/24":  "via: 198.51.100.1\n",
		"2001:db8::7/128":  "via: 2001:db8:1::1\n        on-link: true\n",
		"2001:db8:1::7/64": "via: 2001:db8:1::1\n",
	} {
		m := worker()
		m.Address, m.Gateway = netip.MustParsePrefix(address), netip.MustParseAddr("198.51.100.1")
		if m.Address.Addr().Is6() {
			m.Gateway = netip.MustParseAddr("2001:db8:1::1")
		}
		doc, err := RenderWorker(m)
		require.NoError(t, err)
		b, err := doc.Network.Render()
		require.NoError(t, err)
		assert.Contains(t, strings.ReplaceAll(string(b), "\"", ""), want, address)
		assert.Equal(t, strings.Contains(want, "on-link"), strings.Contains(string(b), "on-link"), "%s: %s", address, b)
	}
}

func TestRefusals(t *testing.T) {
	for want, change := range map[string]func(*Machine){
		`hostname "Wk_1"`:         func(m *Machine) { m.Hostname = "Wk_1" },
		`machine "": hostname ""`: func(m *Machine) { m.Hostname = "" },
		`user "root"`:             func(m *Machine) { m.User = "root" },
		"nobody could log in":     func(m *Machine) { m.AuthorizedKeys = nil },
		"make one with openssl":   func(m *Machine) { m.PasswordHash = "hunter2" },
		"MTU 1279":                func(m *Machine) { m.MTU = 1279 },
		"MTU 65536":               func(m *Machine) { m.MTU = 65536 },
		`MAC address "bc:24"`:     func(m *Machine) { m.MAC = "bc:24" },
		"gateway fd00::1":         func(m *Machine) { m.Gateway = netip.MustParseAddr("fd00::1") },
		"gateway 10.0.0.21":       func(m *Machine) { m.Gateway = netip.MustParseAddr("10.0.0.21") },
		"a gateway without":       func(m *Machine) { m.Address = netip.Prefix{} },
		`disk serial "a/b"`:       func(m *Machine) { m.Disks[0].Serial = "a/b" },
		`mount path "/"`:          func(m *Machine) { m.Disks[0].Path = "/" },
		"same serial or path":     func(m *Machine) { m.Disks[1].Path = "/scratch" },
		`file "etc/motd"`:         func(m *Machine) { m.Files[0].Path = "etc/motd" },
		`file "/etc/../root/x"`:   func(m *Machine) { m.Files[0].Path = "/etc/../root/x" },
	} {
		m := worker()
		change(&m)
		_, err := RenderWorker(m)
		assert.ErrorContains(t, err, want)
	}
	for _, mtu := range []int{1280, 65535} {
		m := worker()
		m.MTU = mtu
		_, err := RenderWorker(m)
		assert.NoError(t, err)
	}
	_, err := RenderTemplate(Bake{Hostname: "-"})
	assert.ErrorContains(t, err, "hostname")
	_, err = RenderTemplate(Bake{Hostname: "t", APTSources: []APTSource{{Name: "x"}}})
	assert.ErrorContains(t, err, "needs a name and a line")
	_, err = MetaData{}.render()
	assert.ErrorContains(t, err, "no instance id")
}

// A password that is refused must not be in the message that says so.
func TestRefusedPasswordIsNotPrinted(t *testing.T) {
	m := worker()
	m.PasswordHash = "hunter2"
	_, err := RenderWorker(m)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "hunter2")
}

func TestRenderDoesNotChangeItsInput(t *testing.T) {
	m := worker()
	_, err := RenderWorker(m)
	require.NoError(t, err)
	assert.Equal(t, worker(), m)
}

func TestFileData(t *testing.T) {
	for _, content := range []string{"", "a", "a\n", "a\n\n", " a\n", "a \n", "\ta\n", "ä\n", "a\r\n", "\x00"} {
		w, err := File{Path: "/f", Content: []byte(content)}.write()
		require.NoError(t, err)
		got := []byte(w.Content)
		if w.Encoding == "b64" {
			got, err = base64.StdEncoding.DecodeString(w.Content)
			require.NoError(t, err)
		}
		assert.Equal(t, content, string(got))
	}
}

// Any text comes back as it was, wherever it stands.
func FuzzMarshal(f *testing.F) {
	for _, s := range []string{
		"", "a", "0600", "10:20:30", "on", "~", "null", "1e3", "0x1f", "- a", "a: b", "a #b", `"a"`, `'a'`, `"`, "@", "`", "*a", "&a", "!a", "%a",
		"[a", "{a}", "a,b", "a\nb\n", "a\nb", "\n", " a", "a ", "\ta", "\x00", "\x7f", "ä", "\u2028", "\ufeff", "---", "...", "# c", "| a", "> a",
		"a\r\nb\r\n", "a\n\nb\n", "a\n b\n", "a:\n", "<<", "=", "2026-11-20", "1_000", ".inf", "\\", "\\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			t.Skip("not text")
		}
		type doc struct {
			Text  string     `yaml:"text" json:"text"`
			List  []string   `yaml:"list" json:"list"`
			Flow  [][]string `yaml:"flow" json:"flow"`
			After string     `yaml:"after" json:"after"`
		}
		in := doc{Text: s, List: []string{s, "b"}, Flow: [][]string{{s, "b"}, {s}}, After: s}
		b, err := marshal(in)
		require.NoError(t, err)
		var out doc
		require.NoError(t, sigsyaml.UnmarshalStrict(b, &out), "%s", b)
		require.Equal(t, in, out, "%s", b)
	})
}

// apt takes the proxy for http for https too unless it is told another, or none.
func TestProxies(t *testing.T) {
	for _, tt := range []struct{ proxy, secure, want string }{
		{"http://cache:3142", "", "apt:\n  http_proxy: \"http://cache:3142\"\n  https_proxy: DIRECT\n"},
		{"http://cache:3142", "http://proxy:8080", "apt:\n  http_proxy: \"http://cache:3142\"\n  https_proxy: \"http://proxy:8080\"\n"},
		{"", "http://proxy:8080", "apt:\n  https_proxy: \"http://proxy:8080\"\n"},
	} {
		doc, err := RenderTemplate(Bake{Hostname: "t", APTProxy: tt.proxy, HTTPSProxy: tt.secure})
		require.NoError(t, err)
		text, err := doc.UserData.render()
		require.NoError(t, err)
		assert.Contains(t, string(text), tt.want)
	}
}

// Each card is found by its MAC address, and the boot waits for the first alone, which also has the
// default route and DNS servers, whatever routers and DHCP servers in the other networks announce.
func TestCards(t *testing.T) {
	m := worker()
	m.Cards = []Card{
		{Name: "storage", MAC: "BC:24:11:00:00:02", Address: netip.MustParsePrefix("10.10.0.21/24"), MTU: 9000, Routes: []Route{{To: "10.20.0.0/16", Via: "10.10.0.1"}}},
		{Name: "camera", MAC: "bc:24:11:00:00:03"},
		{Name: "office", MAC: "bc:24:11:00:00:04", DHCP: true},
	}
	n, err := RenderWorker(m)
	require.NoError(t, err)
	cards := n.Network.Ethernets
	require.Len(t, cards, 4)
	assert.False(t, cards["eth0"].Optional)
	assert.Nil(t, cards["eth0"].AcceptRA)
	assert.Equal(t, Ethernet{Match: Match{MAC: "bc:24:11:00:00:02"}, SetName: "storage", Addresses: []string{"10.10.0.21/24"}, MTU: 9000,
		Routes: []Route{{To: "10.20.0.0/16", Via: "10.10.0.1"}}, AcceptRA: new(bool), Optional: true}, cards["storage"])
	assert.Equal(t, Ethernet{Match: Match{MAC: "bc:24:11:00:00:03"}, SetName: "camera", AcceptRA: new(bool), Optional: true}, cards["camera"])
	assert.Equal(t, Ethernet{Match: Match{MAC: "bc:24:11:00:00:04"}, SetName: "office", DHCP4: true, DHCPIdentifier: "mac", DHCP4Overrides: &Overrides{},
		AcceptRA: new(bool), Optional: true}, cards["office"])
	text, err := n.Network.Render()
	require.NoError(t, err)
	assert.Contains(t, string(text), "use-dns: false")
	for want, c := range map[string]Card{
		`network card "Storage 1"`:           {Name: "Storage 1", MAC: "bc:24:11:00:00:02"},
		`network card a: MAC address "bc:2"`: {Name: "a", MAC: "bc:2"},
		"two network cards have one name":    {Name: "eth0", MAC: "bc:24:11:00:00:02"},
	} {
		m.Cards = []Card{c}
		_, err := RenderWorker(m)
		assert.ErrorContains(t, err, want)
	}
}

// The guest agent comes before all other packages where it is asked for, and once.
func TestAgentFirst(t *testing.T) {
	for _, first := range []bool{false, true} {
		m := server()
		m.AgentFirst, m.Packages = first, []string{"a", agent, "b"}
		doc, err := RenderPlain(m)
		require.NoError(t, err)
		var installs []string
		for _, c := range doc.UserData.RunCmd {
			if c[0] == "/usr/local/sbin/install-missing-packages" {
				installs = append(installs, strings.Join(c[1:], " "))
			}
		}
		assert.Equal(t, map[bool][]string{false: {"a " + agent + " b"}, true: {agent, "a b"}}[first], installs)
		assert.Equal(t, 1, strings.Count(string(mustRender(t, doc)), "path: /usr/local/sbin/install-missing-packages"))
		m.Packages = []string{"a"}
		doc, err = RenderPlain(m)
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(mustRender(t, doc)), "install-missing-packages, a"))
	}
}

func mustRender(t *testing.T, n NoCloud) []byte {
	t.Helper()
	files, err := n.Files()
	require.NoError(t, err)
	return files["user-data"]
}

// The machine that becomes a template has an address of its own if it is given one.
func TestBakeAtAnAddress(t *testing.T) {
	b := bake()
	doc, err := RenderTemplate(b)
	require.NoError(t, err)
	assert.Empty(t, doc.Network.Ethernets)
	b.MAC, b.Address, b.Gateway = "02:00:00:00:00:01", netip.MustParsePrefix("10.0.0.9/24"), netip.MustParseAddr("10.0.0.1")
	doc, err = RenderTemplate(b)
	require.NoError(t, err)
	assert.Equal(t, []string{"10.0.0.9/24"}, doc.Network.Ethernets[interfaceName].Addresses)
	b.Gateway = netip.Addr{}
	doc, err = RenderTemplate(b)
	require.NoError(t, err)
	assert.Empty(t, doc.Network.Ethernets[interfaceName].Routes)
	for _, mac := range []string{"x", "02:00:00:00:00:00:00:01"} {
		b.MAC = mac
		_, err = RenderTemplate(b)
		require.ErrorContains(t, err, "template: MAC address \""+mac+"\": want six bytes")
	}
}

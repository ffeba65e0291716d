package k3s_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/skew"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
)

func TestFirstServer(t *testing.T) {
	m, s := newMachine(t), firstServer(t)
	assert.Equal(t, "k3s v1.36.5+k3s1, first server of the cluster", s.Diff(m.observe()).String())
	require.ErrorIs(t, k3s.StartServer(t.Context(), m, s), k3s.ErrNotInstalled)
	m.install()
	var said []string
	require.NoError(t, k3s.StartServer(converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) { said = append(said, u.Message) }), m, s))
	assert.Equal(t, []string{"starting k3s server"}, said)
	assert.Contains(t, m.read("units/calls"), "daemon-reload\nenable k3s\nstart --no-block k3s\n")
	assert.Equal(t, string(s.Manifests[k3s.KubeVIPManifest]), m.read("var/lib/rancher/k3s/server/manifests/kube-vip.yaml"))
	assert.NoFileExists(t, m.path("etc/rancher/k3s/token"), "K3s makes the first token itself")
	assert.Equal(t, "state: activating → active", s.Diff(m.observe()).String())

	m.started("k3s")
	state := m.observe()
	assert.Empty(t, s.Diff(state).String())
	assert.Equal(t, k3s.RoleServer, state.Role)
	assert.True(t, state.Enabled)
	m.runs = nil
	require.NoError(t, k3s.StartServer(t.Context(), m, s))
	assert.Equal(t, []string{"observe.sh"}, m.runs, "the second time it only looks")
}

// TestNamedFiles: a file that the configuration names is written with it.
func TestNamedFiles(t *testing.T) {
	m, s := newMachine(t), firstServer(t)
	s.Files = map[string][]byte{"/etc/rancher/k3s/login.d/1.pem": []byte("PEM")}
	s.Extra = map[string]any{"kube-apiserver-arg": []any{"oidc-ca-file=/etc/rancher/k3s/login.d/1.pem"}}
	m.install()
	require.NoError(t, k3s.StartServer(t.Context(), m, s))
	assert.Equal(t, "PEM", m.read("etc/rancher/k3s/login.d/1.pem"))
	m.started("k3s")
	assert.Empty(t, s.Diff(m.observe()).String())
}

func TestChangesAreSeenAndMade(t *testing.T) {
	m, s := newMachine(t), firstServer(t)
	m.install()
	require.NoError(t, k3s.StartServer(t.Context(), m, s))
	m.started("k3s")

	s.TLSSANs = append(s.TLSSANs, "lab.example")
	s.Disable = nil
	d := s.Diff(m.observe())
	assert.Equal(t, "config/tls-san: 10.0.0.10 → 10.0.0.10,lab.example (needs a restart); config/disable: traefik → (none) (needs a restart)", d.String())
	require.NoError(t, k3s.StartServer(t.Context(), m, s))
	assert.Contains(t, m.read("units/calls"), "\nrestart --no-block k3s\n")
	m.started("k3s")
	assert.Empty(t, s.Diff(m.observe()).String())

	// A manifest is picked up by K3s itself.
	require.NoError(t, os.Remove(m.path("units/calls")))
	s.Manifests[k3s.KubeVIPManifest] = []byte("other")
	assert.Equal(t, converge.Update, s.Diff(m.observe()).Effect())
	assert.Contains(t, s.Diff(m.observe()).String(), "manifest/kube-vip.yaml: ")

	// Cut short between writing the configuration and the restart.
	m.write("etc/rancher/k3s/homelab.applied", "0123\n")
	s = firstServer(t)
	s.TLSSANs = append(s.TLSSANs, "lab.example")
	s.Disable = nil
	assert.Equal(t, "running: as before the last change → as configured (needs a restart)", s.Diff(m.observe()).String())
}

func TestJoinAgent(t *testing.T) {
	m := newMachine(t)
	m.install()
	a := agent()
	url := a.URL
	a.URL = ""
	assert.ErrorContains(t, k3s.JoinAgent(t.Context(), m, k3s.Join{Server: url, Agent: a}), "Token must be set")
	require.NoError(t, k3s.JoinAgent(t.Context(), m, k3s.Join{Server: url, Token: token, Agent: a}))
	m.started("k3s-agent")
	a.URL = url
	assert.Empty(t, a.Diff(m.observe()).String())

	info, err := os.Stat(m.path("etc/rancher/k3s/token"))
	require.NoError(t, err)
	assert.Equal(t, "-rw-------", info.Mode().String())
	assert.Equal(t, token.Reveal()+"\n", m.read("etc/rancher/k3s/token"))
	for _, run := range m.runs {
		assert.NotContains(t, run, "s3cr3t", "a token is never an argument")
	}
	require.NoError(t, os.Chmod(m.path("etc/rancher/k3s/token"), 0o644))
	assert.Equal(t, "token-file: /etc/rancher/k3s/token with mode 0644 → /etc/rancher/k3s/token with mode 0600 (needs a restart)", a.Diff(m.observe()).String())
}

// K3s reads its token when it starts: one that still waits for its server needs a restart to see a new one.
func TestNewTokenRestartsAnAgent(t *testing.T) {
	m := newMachine(t)
	m.install()
	join := k3s.Join{Token: token, Agent: agent()}
	require.NoError(t, k3s.JoinAgent(t.Context(), m, join))
	m.write("units/journal", `level=info msg="Starting k3s agent v1.36.5+k3s1"`+"\n"+`level=error msg="failed to get CA certs: EOF"`+"\n")
	m.write("units/calls", "")
	require.NoError(t, k3s.JoinAgent(t.Context(), m, join))
	assert.Contains(t, m.read("units/calls"), "restart --no-block k3s-agent\n")
}

// The newest lines count, also where an old systemd would print the first ones.
func TestNewestLinesOfTheJournal(t *testing.T) {
	m := newMachine(t)
	m.install()
	require.NoError(t, k3s.JoinAgent(t.Context(), m, k3s.Join{Token: token, Agent: agent()}))
	m.write("units/journal", `level=info msg="Starting k3s agent v1.36.5+k3s1"`+"\n"+strings.Repeat("of the kubelet\n", 100)+"the\nlast\n")
	have := m.observe().Journal
	assert.Len(t, have, 60)
	assert.Equal(t, []string{"the", "last"}, have[58:])
}

// A server that ends and starts again says why in lines that its next start has pushed out: its end is
// read apart, as a real v1.34.3 has it (testdata/real/35-apiserver-ends.txt).
func TestHowTheLastRunEnded(t *testing.T) {
	m := newMachine(t)
	m.install()
	require.NoError(t, k3s.StartServer(t.Context(), m, firstServer(t)))
	var end string
	for _, r := range recordings(t) {
		if r.file == "35-apiserver-ends.txt" {
			end = strings.Join(r.journal, "\n") + "\n"
		}
	}
	require.NotEmpty(t, end)
	const why = `its last run ended: apiserver exited: invalid argument "abc" for "--service-node-port-range" flag: strconv.Atoi: parsing "abc": invalid syntax`
	for journal, want := range map[string]string{
		"":  "",
		end: why,
		end + strings.Repeat("of its start\n", 100):   why,
		end + "level=info msg=\"Waiting for etcd\"\n": "etcd is starting; " + why,
		strings.Replace(end, "abc", "unknown flag: --x", 1): "an argument of the kubelet or of the control plane is not one of this version: " +
			"remove it from kubelet-arg, kube-apiserver-arg and the like in /etc/rancher/k3s/config.yaml",
		`time="2026-11-28T08:38:28Z" level=fatal msg="starting kubernetes: \"x\"" error=no` + "\n": `its last run ended: starting kubernetes: "x" error=no`,
	} {
		m.write("units/journal", journal)
		have := m.observe()
		assert.Equal(t, want, have.Reason())
		d := firstServer(t).Diff(have)
		assert.Equal(t, want, d[len(d)-1].Note)
	}
}

// K3s gives its node the labels of config.yaml at every start, so the file has to
// follow; for labels and taints alone nothing is restarted.
func TestLabelsAndTaintsRestartNothing(t *testing.T) {
	m, a := newMachine(t), agent()
	m.install()
	require.NoError(t, k3s.JoinAgent(t.Context(), m, k3s.Join{Token: token, Agent: a}))
	m.started("k3s-agent")
	before := m.read("units/calls")
	a.Labels, a.Taints = map[string]string{"pool": "cpu"}, nil
	d := a.Diff(m.observe())
	assert.Equal(t, "config/node-label: pool=gpu → pool=cpu; config/node-taint: nvidia.com/gpu=present:NoSchedule → (none)", d.String())
	assert.Equal(t, converge.Update, d.Effect())
	require.NoError(t, k3s.JoinAgent(t.Context(), m, k3s.Join{Token: token, Agent: a}))
	assert.Empty(t, a.Diff(m.observe()).String())
	assert.Contains(t, m.read("etc/rancher/k3s/config.yaml"), "pool=cpu")
	assert.NotContains(t, strings.TrimPrefix(m.read("units/calls"), before), "start")
}

// What others put beside our files is told, without its values, and is not a drift.
func TestOthersAreTold(t *testing.T) {
	m, a := newMachine(t), agent()
	m.install()
	require.NoError(t, k3s.JoinAgent(t.Context(), m, k3s.Join{Token: token, Agent: a}))
	m.started("k3s-agent")
	a.URL = "https://10.0.0.10:6443"
	assert.Empty(t, m.observe().ForeignFiles)
	m.write("etc/rancher/k3s/config.yaml.d/90-mine.yaml", "# mine\nkubelet-arg+:\n- max-pods=50\ntoken: s3cr3t-s3cr3t\n")
	m.write("etc/rancher/k3s/config.yaml.d/ours.yaml", "# Written by homelab, which writes it again when it differs.\ndebug: true\n")
	m.write("etc/rancher/k3s/config.yaml.d/README", "debug: true\n")
	m.write("etc/systemd/system/k3s-agent.service.env", "K3S_TOKEN=s3cr3t-s3cr3t\n")
	m.write("etc/systemd/system/k3s.service.env", "K3S_URL=of no unit here\n")
	m.write("etc/systemd/system/k3s-agent.service.d/nice.conf", "[Service]\nNice=5\n")
	s := m.observe()
	var told []string
	for _, o := range s.ForeignFiles {
		told = append(told, strings.TrimPrefix(o.String(), m.root))
	}
	assert.Equal(t, []string{"/etc/rancher/k3s/config.yaml.d/90-mine.yaml (kubelet-arg, token)",
		"/etc/systemd/system/k3s-agent.service.env (K3S_TOKEN)", "/etc/systemd/system/k3s-agent.service.d/nice.conf (Nice)"}, told)
	assert.NotContains(t, fmt.Sprint(s), "s3cr3t")
	assert.Empty(t, a.Diff(s).String())
}

func TestRoleConfusion(t *testing.T) {
	m := newMachine(t)
	m.install()
	require.NoError(t, k3s.StartServer(t.Context(), m, firstServer(t)))
	m.started("k3s")
	assert.Contains(t, agent().Diff(m.observe()).String(), "role: server → agent (needs a replacement)")
	require.ErrorIs(t, k3s.JoinAgent(t.Context(), m, k3s.Join{Token: token, Agent: agent()}), k3s.ErrRole)
	m.write("etc/systemd/system/k3s-agent.service", "x")
	assert.Equal(t, k3s.RoleBoth, m.observe().Role)
	assert.Equal(t, converge.Replace, firstServer(t).Diff(m.observe()).Effect())
}

func TestJoinServerNeedsACluster(t *testing.T) {
	m, s := newMachine(t), firstServer(t)
	assert.ErrorContains(t, k3s.JoinServer(t.Context(), m, s), "it would start a cluster of its own")
	s.URL = "https://10.0.0.10:6443"
	assert.ErrorContains(t, k3s.StartServer(t.Context(), m, s), "use JoinServer")
	m.install()
	s.Token = token
	require.NoError(t, k3s.JoinServer(t.Context(), m, s))
	assert.Contains(t, m.read("etc/rancher/k3s/config.yaml"), "server: https://10.0.0.10:6443")
}

func TestUpgrade(t *testing.T) {
	m, s := newMachine(t), firstServer(t)
	m.install()
	require.NoError(t, k3s.StartServer(t.Context(), m, s))
	m.started("k3s")
	const next = "v1.37.1+k3s1"
	s.Version = next
	assert.Equal(t, "version: v1.36.5+k3s1 → v1.37.1+k3s1 (needs a restart)", s.Diff(m.observe()).String())
	m.publish(next)
	require.NoError(t, k3s.UpgradeServer(t.Context(), m, k3s.Release{Version: next}, s))
	assert.True(t, strings.HasSuffix(strings.TrimSpace(m.read("units/calls")), "restart --no-block k3s"))
	m.started("k3s")
	assert.Empty(t, s.Diff(m.observe()).String())

	var refused *skew.Error
	s.Version = version
	require.ErrorAs(t, k3s.UpgradeServer(t.Context(), m, k3s.Release{Version: version}, s), &refused)
	assert.ErrorContains(t, refused, "cannot be downgraded")
	assert.Contains(t, s.Diff(m.observe()).String(), "cannot be downgraded")
	s.Version = "v1.39.0+k3s1"
	require.ErrorAs(t, k3s.UpgradeServer(t.Context(), m, k3s.Release{Version: s.Version}, s), &refused)
	assert.ErrorContains(t, refused, "write a v1.38 release first")
}

func TestWait(t *testing.T) {
	// Time is virtual; the machine is a function of it. Only systemd's word and
	// the journal change.
	const told = "time=\"…\" level=info msg=\"Waiting to retrieve agent configuration; server is not ready: failed to get CA certs: Get \\\"https://127.0.0.1:6444/cacerts\\\": EOF\""
	const waits = "waiting for k3s agent: the server "
	const refused = "Waiting to retrieve agent configuration; server is not ready: failed to retrieve configuration from server: not authorized"
	for name, test := range map[string]struct {
		journal []string // one line for each look; after the last it is active
		want    string   // of the error, empty for none
		said    []string // where it comes up
		after   time.Duration
	}{
		"comes up":      {journal: []string{"starting", told}, said: []string{"waiting for k3s agent: starting", waits + "cannot be reached"}, after: 4 * time.Second},
		"wrong token":   {journal: []string{told, strings.Repeat(refused+"\n", 3), "x"}, want: "the server refuses the token", after: 2 * time.Second},
		"server starts": {journal: []string{told, refused, told}, said: []string{waits + "cannot be reached", waits + "is not ready yet", waits + "cannot be reached"}, after: 6 * time.Second},
		"never":         {journal: strings.Split(strings.Repeat(told+"\n", 100), "\n"), want: "k3s agent is not running yet: the server cannot be reached: context deadline exceeded", after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var said []string
				ctx := converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) { mu.Lock(); defer mu.Unlock(); said = append(said, u.Message) })
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				look := 0
				r := remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
					out := "\n@@ version\nk3s version v1.36.5+k3s1 (x)\n\n@@ unit k3s-agent\nx\n\n@@ active k3s-agent\n"
					if look < len(test.journal) {
						out += "activating\n\n@@ journal k3s-agent\nlevel=info msg=\"Starting k3s agent v1.36.5+k3s1 (x)\"\n" + test.journal[look] + "\n"
					} else {
						out += "active\n"
					}
					look++
					_, err := c.Stdout.Write([]byte(out + "\n@@ end\n"))
					return err
				})
				began := time.Now()
				state, err := k3s.Wait(ctx, r, k3s.RoleAgent)
				assert.Equal(t, test.after, time.Since(began))
				mu.Lock()
				defer mu.Unlock()
				if test.want == "" {
					require.NoError(t, err)
					assert.True(t, state.Running())
					assert.Equal(t, test.said, said)
					return
				}
				require.ErrorContains(t, err, test.want)
			})
		})
	}
}

func TestObserveCutShort(t *testing.T) {
	r := remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
		_, err := c.Stdout.Write([]byte("\n@@ version\n"))
		return err
	})
	_, err := k3s.Observe(t.Context(), r)
	assert.ErrorContains(t, err, "truncated")
}

func TestBrokenConfigIsRepaired(t *testing.T) {
	m := newMachine(t)
	m.install()
	require.NoError(t, k3s.JoinAgent(t.Context(), m, k3s.Join{Token: token, Agent: agent()}))
	m.started("k3s-agent")
	m.write("etc/rancher/k3s/config.yaml", "a: [\n@@ no section\n")
	assert.False(t, agent().Diff(m.observe()).Empty())
	require.NoError(t, k3s.JoinAgent(t.Context(), m, k3s.Join{Token: token, Agent: agent()}))
	m.started("k3s-agent")
	assert.Empty(t, agent().Diff(m.observe()).String())
	m.write("etc/rancher/k3s/config.yaml", m.read("etc/rancher/k3s/config.yaml")+"token: hunter2\n")
	d := agent().Diff(m.observe()).String()
	assert.Contains(t, d, "config/token: [secret] → (none)")
	assert.NotContains(t, d, "hunter2")
}

func TestTokens(t *testing.T) {
	m := newMachine(t)
	_, err := k3s.Token(t.Context(), m)
	require.ErrorIs(t, err, k3s.ErrNoCluster)
	m.write("var/lib/rancher/k3s/server/token", token.Reveal()+"\n")
	got, err := k3s.Token(t.Context(), m)
	require.NoError(t, err)
	assert.Equal(t, token.Reveal(), got.Reveal())
	m.write("var/lib/rancher/k3s/server/agent-token", "not one\n")
	_, err = k3s.AgentToken(t.Context(), m)
	assert.ErrorContains(t, err, "does not hold one that begins with K10")
	assert.NotContains(t, err.Error(), "not one")
}

func TestDiagnose(t *testing.T) {
	for line, want := range map[string]string{
		"level=info msg=\"Waiting to retrieve agent configuration; server is not ready: Node password rejected, duplicate hostname or contents of '/etc/rancher/node/password' may not match server node-passwd entry, try enabling a unique node name with the --with-node-id flag\"": "another machine of this name: delete its Node",
		"level=fatal msg=\"starting kubernetes: preparing server: failed to bootstrap cluster data: not authorized\"":                                                                                                                                                                  "the token is wrong, or is one for agents",
		"level=fatal msg=\"Error: flag provided but not defined: -tls-san\"":                                                                "a key that agents do not have",
		"level=fatal msg=\"ETCD join failed: etcd cluster join failed: duplicate node name found, please use a unique name for this node\"": "etcd still has a member of this name",
		"critical configuration value mismatch between servers: ClusterDNS":                                                                 "a setting differs from that of the other servers",
	} {
		d, ok := k3s.Diagnose([]string{"level=info msg=starting", line, "connection refused"})
		require.True(t, ok, line)
		assert.True(t, d.Fatal)
		assert.Contains(t, d.String(), want)
		assert.Equal(t, line, d.Line)
	}
	_, ok := k3s.Diagnose([]string{"all is well"})
	assert.False(t, ok)
	err := &k3s.StartError{Role: k3s.RoleAgent, Diagnosis: k3s.Diagnosis{Cause: "a", Cure: "b", Line: "c"}}
	assert.Equal(t, "k3s agent does not start: a: b (journal: c)", err.Error())
}

// Two of three servers are away, or a disk is slow: the scheduler or the controllers lose
// their lease, and K3s ends with them. systemd starts it again.
func TestDiagnoseOfALostLease(t *testing.T) {
	for _, line := range []string{
		`E1122 10:00:00.000000    4242 controllermanager.go:413] "leaderelection lost/stopped"`,
		`E1122 10:00:00.000000    4242 server.go:328] "Leaderelection lost"`,
		`time="2026-11-22T10:00:00Z" level=fatal msg="leaderelection lost for k3s"`,
	} {
		d, ok := k3s.Diagnose([]string{"connection refused", line, "level=info msg=\"Waiting for API server\""})
		require.True(t, ok, line)
		assert.False(t, d.Fatal, "it comes again by itself")
		assert.Equal(t, line, d.Line)
		assert.Contains(t, d.String(), "could not renew its leases")
	}
}

// A Raspberry Pi starts without the memory cgroup; K3s says so of cgroup v2, and with its own cure of v1.
func TestDiagnoseNoMemoryCgroup(t *testing.T) {
	for _, line := range []string{
		`time="2026-11-22T10:00:00Z" level=fatal msg="Error: failed to find memory cgroup (v2)"`,
		`time="2026-11-22T10:00:00Z" level=error msg="Failed to find memory cgroup, you may need to add \"cgroup_memory=1 cgroup_enable=memory\" to your linux cmdline (/boot/cmdline.txt on a Raspberry Pi)"`,
	} {
		d, ok := k3s.Diagnose([]string{line})
		require.True(t, ok, line)
		assert.Equal(t, "the kernel of this machine counts no memory", d.Cause)
		assert.Contains(t, d.Cure, "cgroup_enable=memory cgroup_memory=1")
		assert.True(t, d.Fatal)
	}
}

// What a server says of those who ask it, and a kubelet of its pods, is no reason
// why K3s itself does not start.
func TestDiagnoseLeavesOthersOut(t *testing.T) {
	for _, line := range []string{
		`time="2026-11-22T10:00:00Z" level=error msg="Sending HTTP/1.1 401 response to 10.0.0.77:51234: not authorized"`,
		`time="2026-11-22T10:00:00Z" level=error msg="Sending HTTP/2.0 500 response to 10.0.0.77:51234: dial tcp 10.0.0.78:6443: connect: connection refused"`,
		`time="2026-11-22T10:00:00Z" level=error msg="Failed to authenticate request from 10.0.0.77:51234: not authorized"`,
		`E1122 10:00:00.000000    4242 pod_workers.go:1324] "Error syncing pod, skipping" err="write /data/x: no space left on device" pod="default/x"`,
		`E1122 10:00:00.000000    4242 kuberuntime_manager.go:1] "Unhandled Error" err="listen tcp :80: bind: address already in use" pod="default/x"`,
	} {
		_, ok := k3s.Diagnose([]string{line})
		assert.False(t, ok, line)
		d, ok := k3s.Diagnose([]string{"level=info msg=\"Waiting for etcd server to become available\"", line})
		assert.True(t, ok, line)
		assert.False(t, d.Fatal, line)
	}
}

// An agent that is started again with another token: the one before dies with a word
// of its old trouble, which is not that of the new one.
func TestDiagnosisIsOfThePresentRun(t *testing.T) {
	const (
		begun  = `time="2026-11-22T11:36:14Z" level=info msg="Starting k3s agent v1.36.3+k3s1 (469d009f)"`
		waits  = `time="2026-11-22T11:36:13Z" level=info msg="Waiting to retrieve agent configuration; server is not ready: failed to retrieve configuration from server: not authorized"`
		dies   = `time="2026-11-22T11:36:14Z" level=fatal msg="Error: failed to retrieve agent configuration: failed to retrieve configuration from server: not authorized"`
		noFlag = `time="2026-11-22T11:36:14Z" level=fatal msg="Error: flag provided but not defined: -tls-san"`
	)
	// recorded: testdata/real/34-v1.35.0-agent-of-a-restored-server.txt
	const restoring = `time="2026-11-24T01:04:21Z" level=warning msg="Failed to validate server token: token CA hash does not match the Cluster CA certificate hash: 1 != 2"`
	const old = `time="2026-11-22T11:36:19Z" level=info msg="Waiting to retrieve agent configuration; server is not ready: Post: http: ContentLength=189 with Body length 0"`
	const unready = `time="2026-11-28T02:53:57Z" level=info msg="Waiting to retrieve agent configuration; server is not ready: failed to retrieve configuration from server: forbidden"`
	long := make([]string, 60)
	for i := range long {
		long[i] = waits
	}
	for _, tc := range []struct {
		active  string
		journal []string
		fatal   bool
	}{
		{"deactivating", []string{begun, waits, dies}, false},
		{"activating", []string{waits, dies}, false},
		{"activating", []string{waits, dies, begun}, false},
		{"activating", []string{waits, dies, begun, waits}, false}, // a server that starts says so, too
		{"activating", []string{waits, dies, begun, waits, waits, waits}, true},
		{"activating", []string{begun, waits, waits, unready, waits}, false},
		{"activating", []string{begun, waits, dies}, true},
		{"activating", []string{dies, noFlag}, true},
		{"activating", long, true},
		{"activating", []string{begun, noFlag, begun, old}, true},
		{"activating", []string{restoring}, true},
		{"activating", []string{restoring, "Starting k3s-agent.service - K3s agent..."}, false},
		{"activating", []string{restoring, "Starting K3s agent..."}, false},
		{"activating", []string{"Starting k3s-agent.service - K3s agent...", noFlag}, true},
	} {
		d, _ := k3s.State{Role: k3s.RoleAgent, Active: tc.active, Journal: tc.journal}.Diagnosis()
		assert.Equal(t, tc.fatal, d.Fatal, "%s %q", tc.active, tc.journal)
	}
	d, _ := k3s.State{Role: k3s.RoleAgent, Active: "activating", Journal: []string{begun, noFlag, begun, old}}.Diagnosis()
	assert.Equal(t, noFlag, d.Line, "what ended the run that got the certificate")
	d, _ = k3s.State{Role: k3s.RoleAgent, Active: "activating", Journal: []string{begun, "the power fails", begun, old}}.Diagnosis()
	assert.True(t, d.StaleCertificate())
}

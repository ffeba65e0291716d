package k3s

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

const (
	planVersion = "v1.36.5+k3s1"
	planURL     = "https://10.0.0.10:6443"
)

func joining() Server {
	return Server{Version: planVersion, URL: planURL, Token: secret.New("K10x::server:y"), Node: Node{Name: "cp2", Labels: map[string]string{"a": "1"}},
		Manifests: map[string][]byte{"a.yaml": []byte("a"), "b.yaml": []byte("b")}}
}

// as is the state of a machine that is all that p says.
func as(t *testing.T, p plan) State {
	t.Helper()
	s := State{Role: p.role, Version: p.version, Active: "active", Enabled: true, Config: map[string]any{}, Unit: p.unit(), Applied: p.digest(), TokenMode: "600",
		Manifests: map[string]string{}}
	maps.Copy(s.Config, p.keys)
	for name, text := range p.manifests {
		sum := sha256.Sum256(text)
		s.Manifests[name] = hex.EncodeToString(sum[:])
	}
	return s
}

// One thing of a machine that is otherwise as it should be is another, and the
// difference says this, and nothing else.
func TestDiffOfOneThing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*State)
		want   string
	}{
		"nothing":               {func(*State) {}, ""},
		"spaces in the unit":    {func(s *State) { s.Unit = "\n" + s.Unit + "\n\n" }, ""},
		"no unit text":          {func(s *State) { s.Unit = "" }, ""},
		"the unit":              {func(s *State) { s.Unit = "[Unit]\n" }, "unit: another text → k3s.service of this version (needs a restart)"},
		"the binary":            {func(s *State) { s.Version = "v1.36.4+k3s1" }, "version: v1.36.4+k3s1 → v1.36.5+k3s1 (needs a restart)"},
		"no binary":             {func(s *State) { s.Version = "" }, "version: v1.36.5+k3s1"},
		"a newer binary":        {func(s *State) { s.Version = "v1.36.6+k3s1" }, "version: v1.36.6+k3s1 → v1.36.5+k3s1 (needs a restart) [k3s cannot go from v1.36.6+k3s1 to v1.36.5+k3s1: Kubernetes cannot be downgraded: restore a snapshot from before the upgrade instead]"},
		"another role":          {func(s *State) { s.Role = RoleAgent }, "role: agent → server (needs a replacement) [drain it, delete its Node, remove K3s, and let it join again]"},
		"both roles":            {func(s *State) { s.Role = RoleBoth }, "role: server and agent → server (needs a replacement) [drain it, delete its Node, remove K3s, and let it join again]"},
		"a config and no unit":  {func(s *State) { s.Role, s.Unit = RoleNone, "" }, ""},
		"no config":             {func(s *State) { s.Config = nil }, "config: /etc/rancher/k3s/config.yaml (needs a restart)"},
		"a key less":            {func(s *State) { delete(s.Config, "node-name") }, "config/node-name: \"\" → cp2 (needs a restart)"},
		"a key more":            {func(s *State) { s.Config["debug"] = true }, "config/debug: true → (none) (needs a restart)"},
		"a label more":          {func(s *State) { s.Config["node-label"] = []any{"a=1", "b=2"} }, "config/node-label: b=2 → \"\""},
		"taints":                {func(s *State) { s.Config["node-taint"] = []any{"a=1:NoSchedule"} }, "config/node-taint: a=1:NoSchedule → (none)"},
		"no token":              {func(s *State) { s.TokenMode = "" }, "token-file: /etc/rancher/k3s/token with mode 0600 (needs a restart)"},
		"a token for all":       {func(s *State) { s.TokenMode = "644" }, "token-file: /etc/rancher/k3s/token with mode 0644 → /etc/rancher/k3s/token with mode 0600 (needs a restart)"},
		"a manifest":            {func(s *State) { s.Manifests["b.yaml"] = "0123456789abcdef" }, "manifest/b.yaml: 0123456789ab → 3e23e8160039"},
		"no manifest":           {func(s *State) { delete(s.Manifests, "a.yaml") }, "manifest/a.yaml: ca978112ca1b"},
		"registries":            {func(s *State) { s.Registries = "0123" }, "registries.yaml: present → (none) (needs a restart)"},
		"what was started":      {func(s *State) { s.Applied = "0123" }, "running: as before the last change → as configured (needs a restart)"},
		"nothing was started":   {func(s *State) { s.Active, s.Applied = "inactive", "0123" }, "state: inactive → active"},
		"failed":                {func(s *State) { s.Active = "failed" }, "state: failed → active"},
		"not enabled":           {func(s *State) { s.Enabled = false }, "enabled: no → yes [it would not start at boot]"},
		"enabled as the other":  {func(s *State) { s.Enabled, s.Role = false, RoleAgent }, "role: agent → server (needs a replacement) [drain it, delete its Node, remove K3s, and let it join again]"},
		"an older one, changed": {func(s *State) { s.Version, s.Applied = "v1.36.4+k3s1", "0123" }, "version: v1.36.4+k3s1 → v1.36.5+k3s1 (needs a restart)"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := joining().plan()
			require.NoError(t, err)
			have := as(t, p)
			c.change(&have)
			assert.Equal(t, c.want, p.diff(have).String())
		})
	}
}

// On a machine with nothing, the cluster's member is what is missing; with a binary of
// another version, or with half of it, the rest is said as well.
func TestDiffOfAnEmptyMachine(t *testing.T) {
	p, err := joining().plan()
	require.NoError(t, err)
	const member = "k3s v1.36.5+k3s1, server of " + planURL
	assert.Equal(t, member, p.diff(State{}).String())
	assert.Equal(t, member, p.diff(State{Version: planVersion}).String())
	assert.Contains(t, p.diff(State{Version: "v1.35.0+k3s1"}).String(), "version: v1.35.0+k3s1 → "+planVersion)
	assert.NotContains(t, p.diff(State{Config: map[string]any{}}).String(), member, "somebody has begun")
	assert.NotContains(t, p.diff(State{Role: RoleServer}).String(), member)
}

// What a value is called does not depend on whether it comes from the file or the spec.
func TestPlain(t *testing.T) {
	for want, values := range map[string][]any{
		"7":          {7, int8(7), int64(7), uint64(7), 7.0, float32(7), "7", []int{7}, []any{7.0}, [1]uint16{7}},
		"1000000":    {1000000, int32(1000000), 1e6, []int32{1000000}},
		"0.5":        {0.5, float32(0.5), []float64{0.5}},
		"a,b":        {[]string{"a", "b"}, []any{"a", "b"}, [2]string{"a", "b"}, "a,b"},
		"true":       {true, []bool{true}},
		"a":          {Role("a"), []Role{"a"}},
		"map[a:1]":   {map[string]any{"a": 1}, map[string]int{"a": 1}},
		"<nil>":      {nil},
		"(1+2i)":     {complex(1, 2)},
		"map[a:[b]]": {map[string][]string{"a": {"b"}}},
	} {
		for _, v := range values {
			assert.Equal(t, want, plain(v), "%T", v)
		}
	}
}

// The file names a token where there is one to join with.
func TestTokenFileIsNamedWhereThereIsAToken(t *testing.T) {
	for _, url := range []string{"", planURL} {
		for _, token := range []secret.Value{{}, secret.New("x")} {
			k, err := Server{Version: planVersion, URL: url, Token: token}.keys()
			require.NoError(t, err)
			_, named := k["token-file"]
			assert.Equal(t, url != "" || !token.IsZero(), named, "%q %v", url, token.IsZero())
			assert.Equal(t, url == "", k["cluster-init"] == true)
		}
	}
	k, err := Server{Version: planVersion, SnapshotRetention: 1}.keys()
	require.NoError(t, err)
	assert.Equal(t, 1, k["etcd-snapshot-retention"])
	k, err = Server{Version: planVersion}.keys()
	require.NoError(t, err)
	assert.NotContains(t, k, "etcd-snapshot-retention")
}

func TestURLOfTheServer(t *testing.T) {
	for text, ok := range map[string]bool{
		planURL: true, "https://vip": true, "https://[fd00::1]:6443": true, "https://vip:6443/": false, "https://vip/x": false,
		"http://vip:6443": false, "https://": false, "https://:6443": false, "vip:6443": false, "": false, "https://vip:x": false, "https://%zz": false,
	} {
		assert.Equal(t, ok, checkURL(text) == nil, text)
	}
}

// Which labels a kubelet may give its own node (k8s.io/kubelet/pkg/apis).
func TestLabelsOfKubernetesOwn(t *testing.T) {
	for label, ok := range map[string]bool{
		"pool": true, "example.com/pool": true, "kubernetes.io/os": true, "kubernetes.io/hostname": true, "topology.kubernetes.io/zone": true,
		"node.kubernetes.io/instance-type": true, "kubelet.kubernetes.io/x": true, "a.kubelet.kubernetes.io/x": true, "node.kubernetes.io/x": true, "a.node.kubernetes.io/x": true,
		"kubernetes.io/x": false, "k8s.io/x": false, "a.k8s.io/x": false, "node-role.kubernetes.io/worker": false, "topology.kubernetes.io/x": false,
	} {
		assert.Equal(t, ok, len(Node{Labels: map[string]string{label: "x"}}.check()) == 0, label)
	}
}

func TestKubeVIPTakesASecond(t *testing.T) {
	v := VIP{Address: netip.MustParseAddr("10.0.0.10"), LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: time.Second}
	m, err := KubeVIP(v)
	require.NoError(t, err)
	assert.Contains(t, string(m), "name: vip_retryperiod\n          value: \"1\"")
}

// Each registry says what was asked for, and nothing of what was not.
func TestRegistriesSayWhatIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		r     Registry
		want  string
		files int
	}{
		"nothing":      {Registry{Name: "r"}, "configs: {}\nmirrors: {}\n", 0},
		"an endpoint":  {Registry{Name: "r", Endpoints: []string{"https://e"}}, "configs: {}\nmirrors:\n  r:\n    endpoint:\n    - https://e\n", 0},
		"a rewrite":    {Registry{Name: "r", Rewrite: map[string]string{"a": "b"}}, "configs: {}\nmirrors:\n  r:\n    rewrite:\n      a: b\n", 0},
		"a login":      {Registry{Name: "r", Username: "u", Password: secret.New("p")}, "configs:\n  r:\n    auth:\n      password: p\n      username: u\nmirrors: {}\n", 0},
		"no checks":    {Registry{Name: "r", Insecure: true}, "configs:\n  r:\n    tls:\n      insecure_skip_verify: true\nmirrors: {}\n", 0},
		"an authority": {Registry{Name: "r", CA: []byte("PEM")}, "configs:\n  r:\n    tls:\n      ca_file: /etc/rancher/k3s/registries.d/384fb9a44fab.pem\nmirrors: {}\n", 1},
		"two endpoints": {Registry{Name: "r", Endpoints: []string{"https://e", "https://f:5"}, Insecure: true},
			"configs:\n  e:\n    tls:\n      insecure_skip_verify: true\n  f:5:\n    tls:\n      insecure_skip_verify: true\nmirrors:\n  r:\n    endpoint:\n    - https://e\n    - https://f:5\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			text, files, err := (Node{Registries: []Registry{c.r}}).registries()
			require.NoError(t, err)
			assert.Equal(t, c.want, strings.TrimPrefix(text.Reveal(), configHead))
			assert.Len(t, files, c.files)
		})
	}
	for _, bad := range []Registry{{Endpoints: []string{"mirror"}}, {Endpoints: []string{"https://"}}, {Endpoints: []string{"https://%zz"}}, {Username: "u"}, {Password: secret.New("p")}} {
		_, _, err := (Node{Registries: []Registry{bad}}).registries()
		assert.ErrorContains(t, err, "registry ", "%v", bad)
	}
}

// A difference of registries.yaml is reported without its contents.
func TestRegistriesDiff(t *testing.T) {
	with := joining()
	with.Registries = []Registry{{Name: "r", Username: "u", Password: secret.New("p")}}
	p, err := with.plan()
	require.NoError(t, err)
	for have, want := range map[string]string{
		p.registriesSum(): "", "": "registries.yaml: as configured (needs a restart)", "0123": "registries.yaml: other contents → as configured (needs a restart)",
	} {
		assert.Equal(t, want, p.registriesDiff(State{Registries: have}).String(), have)
	}
	none, err := joining().plan()
	require.NoError(t, err)
	assert.Empty(t, none.registriesDiff(State{}))
	assert.Empty(t, none.registriesDiff(State{Registries: none.registriesSum()}), "emptied")
	assert.Equal(t, "registries.yaml: present → (none) (needs a restart)", none.registriesDiff(State{Registries: "0123"}).String())
}

// From which version to which K3s goes.
func TestCheckUpgrade(t *testing.T) {
	for pair, want := range map[[2]string]string{
		{"", planVersion}:                    "",
		{planVersion, planVersion}:           "",
		{"strange", "strange"}:               "",
		{"v1.36.5+k3s1", "v1.36.5+k3s2"}:     "",
		{"v1.36.5+k3s1", "v1.37.0+k3s1"}:     "",
		{"v1.36.5-rc1+k3s1", "v1.36.5+k3s1"}: "",
		{"v1.36.5+k3s2", "v1.36.5+k3s1"}:     "cannot be downgraded",
		{"v1.37.0+k3s1", "v1.36.9+k3s1"}:     "cannot be downgraded",
		{"v1.36.5+k3s1", "v1.38.0+k3s1"}:     "write a v1.37 release first",
		{"v1.0.0+k3s1", "v1.2.0+k3s1"}:       "write a v1.1 release first",
		{"v1.0.0+k3s1", "v1.1.0+k3s1"}:       "",
		{"v1.36.05+k3s1", planVersion}:       "",
		{"strange", planVersion}:             "which is not a release: move /usr/local/bin/k3s away by hand",
	} {
		err := CheckUpgrade(pair[0], pair[1])
		if want == "" {
			assert.NoError(t, err, "%v", pair)
			continue
		}
		assert.ErrorContains(t, err, want, "%v", pair)
	}
}

// A unit of both roles is a confusion; what the rest says is read all the same.
func TestParseStateReadsOn(t *testing.T) {
	const part = "\n@@ "
	s, err := parseState([]byte(part + "unit k3s-agent\nU" + part + "active k3s-agent\nactive" + part + "others\nno colon\n/etc/x: A B\n" +
		part + "manifests\nnonsense\n0123  /m/a.yaml\n" + part + "end\n"))
	require.NoError(t, err)
	assert.Equal(t, RoleAgent, s.Role)
	assert.Equal(t, "active", s.Active)
	assert.Equal(t, []ForeignFile{{Path: "/etc/x", Keys: []string{"A", "B"}}}, s.ForeignFiles)
	assert.Equal(t, map[string]string{"a.yaml": "0123"}, s.Manifests)
	s, err = parseState([]byte(part + "unit k3s\nU" + part + "unit k3s-agent\nV" + part + "end\n"))
	require.NoError(t, err)
	assert.Equal(t, RoleBoth, s.Role)
	assert.Equal(t, "U", s.Unit)
}

// What is written and whether K3s starts again follows from what differs.
func TestBringDoesWhatDiffers(t *testing.T) {
	p, err := joining().plan()
	require.NoError(t, err)
	const token, config, unit, a, b = tokenFile, configFile, "/etc/systemd/system/k3s.service", manifestsDir + "/a.yaml", manifestsDir + "/b.yaml"
	for name, c := range map[string]struct {
		change func(*State)
		want   []string // files, and what systemd is told
	}{
		"nothing":                    {func(*State) {}, nil},
		"a manifest":                 {func(s *State) { delete(s.Manifests, "b.yaml") }, []string{token, b}},
		"labels":                     {func(s *State) { s.Config["node-label"] = "a=2" }, []string{token, config}},
		"a key":                      {func(s *State) { s.Config["node-name"] = "x" }, []string{token, config, "restart k3s"}},
		"the unit":                   {func(s *State) { s.Unit = "x" }, []string{token, unit, "restart k3s"}},
		"registries":                 {func(s *State) { s.Registries = "x" }, []string{token, registriesFile, "restart k3s"}},
		"what was started":           {func(s *State) { s.Applied = "x" }, []string{token, "restart k3s"}},
		"not enabled":                {func(s *State) { s.Enabled = false }, []string{token, "start k3s"}},
		"stopped":                    {func(s *State) { s.Active = "inactive" }, []string{token, "start k3s"}},
		"stopped, and not enabled":   {func(s *State) { s.Active, s.Enabled = "inactive", false }, []string{token, "start k3s"}},
		"stopped, a manifest":        {func(s *State) { s.Active = "inactive"; s.Manifests["a.yaml"] = "x" }, []string{token, a, "start k3s"}},
		"starting":                   {func(s *State) { s.Active = "activating" }, []string{token, "start k3s"}},
		"starting with another file": {func(s *State) { s.Active, s.Applied = "activating", "x" }, []string{token, "restart k3s"}},
		"stopped, another file":      {func(s *State) { s.Active, s.Applied = "inactive", "x" }, []string{token, "start k3s"}},
		"starting, without hope": {func(s *State) {
			s.Active, s.Journal = "activating", []string{"level=fatal msg=\"default runtime nvidia was not found\""}
		}, []string{token, "restart k3s"}},
		"starting, and waiting": {func(s *State) {
			s.Active, s.Journal = "activating", []string{"level=info msg=\"Waiting for cri connection\""}
		}, []string{token, "start k3s"}},
		"nothing but the binary": {func(s *State) { *s = State{Version: planVersion} }, []string{token, a, b, config, unit, "start k3s"}},
	} {
		t.Run(name, func(t *testing.T) {
			have := as(t, p)
			c.change(&have)
			r := &bringing{state: have}
			require.NoError(t, applyPlan(t.Context(), r, p, secret.New("x")))
			assert.Equal(t, c.want, r.did)
		})
	}
	have := as(t, p)
	have.Manifests = nil
	r := &bringing{state: have}
	require.NoError(t, applyPlan(t.Context(), r, p, secret.Value{}))
	assert.Equal(t, []string{a, b}, r.did, "without a token, none is written")
}

// bringing is a machine in a state, which notes what is done to it.
type bringing struct {
	state State
	did   []string
}

// Run implements remote.Runner.
func (r *bringing) Run(_ context.Context, cmd remote.Cmd) error {
	switch cmd.Args[2] {
	case observeScript:
		_, err := io.WriteString(cmd.Stdout, r.answer())
		return err
	case startScript:
		r.did = append(r.did, cmd.Args[5]+" "+cmd.Args[4])
	default: // write.sh PATH MODE SIZE
		r.did = append(r.did, cmd.Args[4])
	}
	return nil
}

// answer is what observe.sh says of the state.
func (r *bringing) answer() string {
	var b strings.Builder
	s := r.state
	part := func(name, text string) { fmt.Fprintf(&b, "\n@@ %s\n%s", name, text) }
	part("version", "k3s version "+s.Version+" (0123abcd)\n")
	if s.Role != RoleNone {
		unit := s.Role.Unit()
		part("unit "+unit, s.Unit)
		part("active "+unit, s.Active+"\n")
		part("enabled "+unit, map[bool]string{true: "enabled\n", false: "disabled\n"}[s.Enabled])
		part("journal "+unit, strings.Join(s.Journal, "\n"))
	}
	if s.Config != nil {
		config, _ := render(s.Config)
		part("config", string(config))
	}
	part("token", s.TokenMode+"\n")
	if s.Registries != "" {
		part("registries", s.Registries+"  "+registriesFile+"\n")
	}
	part("applied", s.Applied+"\n")
	manifests := ""
	for _, name := range sortedKeys(s.Manifests) {
		manifests += s.Manifests[name] + "  " + manifestsDir + "/" + name + "\n"
	}
	part("manifests", manifests)
	part("end", "")
	return b.String()
}

// What is no way to join is said before any machine is asked.
func TestJoinNeedsAddressAndToken(t *testing.T) {
	untouched := remote.RunnerFunc(func(context.Context, remote.Cmd) error { panic("asked") })
	token := secret.New("x")
	for _, s := range []Server{{Version: planVersion}, {Version: planVersion, URL: planURL}, {Version: planVersion, Token: token}} {
		require.ErrorContains(t, JoinServer(t.Context(), untouched, s), "URL and Token must be set")
	}
	require.ErrorContains(t, StartServer(t.Context(), untouched, joining()), "use JoinServer")
	a := Agent{Version: planVersion, URL: planURL}
	require.EqualError(t, JoinAgent(t.Context(), untouched, Join{Agent: a, Token: token, Server: "https://other:6443"}),
		"join an agent: Server is https://other:6443 and Agent.URL is "+planURL+": write one of them")
	for _, j := range []Join{{Agent: a, Token: token}, {Agent: a, Token: token, Server: planURL}, {Agent: Agent{Version: planVersion}, Token: token, Server: planURL}} {
		p, err := a.plan()
		require.NoError(t, err)
		r := &bringing{state: as(t, p)}
		require.NoError(t, JoinAgent(t.Context(), r, j))
		require.Empty(t, r.did)
	}
}

// What a server says is in its configuration, and an etcd or ranges of addresses that exist stay.
func TestKeysOfAServer(t *testing.T) {
	s := Server{Version: "v1.36.5+k3s1", Node: Node{Name: "cp1", IPs: []netip.Addr{netip.MustParseAddr("10.0.0.11")}}, TLSSANs: []string{"a"}, Disable: []string{"traefik"},
		ClusterCIDR: []netip.Prefix{netip.MustParsePrefix("10.52.0.0/16")}, ServiceCIDR: []netip.Prefix{netip.MustParsePrefix("10.53.0.0/16")}, ClusterDNS: netip.MustParseAddr("10.53.0.10"), ClusterDomain: "x.local",
		FlannelBackend: "wireguard-native", FlannelIPv6Masq: true, SecretsEncryption: true, SnapshotSchedule: "0 * * * *", SnapshotRetention: 3}
	p, err := s.plan()
	require.NoError(t, err)
	for key, want := range map[string]string{"tls-san": "[a]", "disable": "[traefik]", "cluster-cidr": "10.52.0.0/16", "service-cidr": "10.53.0.0/16", "cluster-dns": "10.53.0.10", "cluster-domain": "x.local",
		"flannel-backend": "wireguard-native", "flannel-ipv6-masq": "true", "secrets-encryption": "true", "etcd-snapshot-schedule-cron": "0 * * * *", "etcd-snapshot-retention": "3"} {
		assert.Equal(t, want, fmt.Sprint(p.keys[key]), key)
	}
	have := as(t, p)
	require.NoError(t, s.CheckRanges(have))
	require.NoError(t, s.CheckAddress(have))
	moved := s
	moved.ClusterCIDR, moved.ServiceCIDR, moved.IPs = nil, []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")}, []netip.Addr{netip.MustParseAddr("10.0.0.12")}
	require.EqualError(t, moved.CheckRanges(have), "the cluster's pods have addresses of 10.52.0.0/16, and the file now gives them 10.42.0.0/16\n"+
		"the cluster's services have addresses of 10.53.0.0/16, and the file now gives them 10.43.0.0/16")
	require.EqualError(t, moved.CheckAddress(have), "etcd knows the server by its address 10.0.0.11, and the file now gives it 10.0.0.12")
	for _, none := range []State{{}, {Role: RoleAgent, Config: have.Config}, {Role: RoleServer}} {
		require.NoError(t, moved.CheckRanges(none))
		require.NoError(t, moved.CheckAddress(none))
	}
	both := s
	both.ClusterCIDR, both.IPs = append(both.ClusterCIDR, netip.MustParsePrefix("fd00:52::/56")), append(both.IPs, netip.MustParseAddr("fd00::11"))
	require.EqualError(t, both.CheckRanges(have), "the cluster's pods have addresses of 10.52.0.0/16, and the file now gives them 10.52.0.0/16,fd00:52::/56: a cluster has one family or both from its beginning")
	require.NoError(t, both.CheckAddress(have), "etcd knows it by its first address alone")
	moved.IPs = nil
	require.ErrorContains(t, moved.CheckAddress(have), "and the file now gives it none")
	delete(have.Config, "node-ip")
	require.ErrorContains(t, s.CheckAddress(have), "by its address of the default route, and")
	moved.Version = "1"
	assert.Regexp(t, "(?s)^spec: .* \\[not valid\\]$", moved.Diff(State{}).String())
	assert.Regexp(t, "(?s)^spec: .* \\[not valid\\]$", Agent{}.Diff(State{}).String())
}

// K3s on an external machine may be another cluster's.
func TestForeignCluster(t *testing.T) {
	e := &ForeignClusterError{Node: "nuc", Of: "other", Cluster: "lab"}
	assert.Contains(t, e.Error(), "K3s on nuc belongs to another cluster, other ("+ClusterFile+"): remove it there (node:remove -node=nuc with the file of other), or remove nuc")
	for of, role := range map[string]Role{"": RoleAgent, "lab": RoleNone} {
		e.Of, e.Role = of, role
		start := "K3s runs, as agent, on nuc already"
		if role == RoleNone {
			start = "K3s on nuc already"
		}
		assert.Contains(t, e.Error(), start+", and may belong to another cluster: ")
		assert.Contains(t, e.Error(), "if it belongs to lab, run there: echo lab | sudo tee "+ClusterFile)
	}
}

func TestNamesOfARelease(t *testing.T) {
	for arch, want := range map[string][3]string{"": {"k3s", "sha256sum-amd64.txt", "amd64"}, "arm64": {"k3s-arm64", "sha256sum-arm64.txt", "arm64"}, "arm": {"k3s-armhf", "sha256sum-arm.txt", "arm"}} {
		r := Release{Arch: arch}
		assert.Equal(t, want, [3]string{r.Binary(), r.Sums(), r.arch()})
		assert.Equal(t, "k3s-airgap-images-"+want[2]+".tar.zst", r.Images())
		r.NoImages = true
		assert.Empty(t, r.Images())
	}
	r := Release{Version: "v1.36.5+k3s1"}
	assert.Equal(t, defaultBaseURL+"/v1.36.5%2Bk3s1 "+defaultBaseURL+"/v1.36.5%2Bk3s1/k3s", r.URL("")+" "+r.URL("k3s"))
	r.BaseURL = "https://mirror.example/k3s/"
	assert.Equal(t, "https://mirror.example/k3s/v1.36.5%2Bk3s1/k3s", r.URL("k3s"))
	for machine, want := range map[string]string{"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "armv8l": "arm", "riscv64": "riscv64"} {
		assert.Equal(t, want, archOf(machine))
	}
	require.ErrorContains(t, UpgradeServer(t.Context(), nil, Release{Version: "a"}, Server{Version: "b"}), "upgrade a server: the release is a and the spec says b")
	require.ErrorContains(t, UpgradeAgent(t.Context(), nil, Release{Version: "a"}, Join{Agent: Agent{Version: "b"}}), "upgrade an agent: the release is a and the spec says b")
}

// Of K3s that runs or is being stopped nothing is diagnosed, and an end counts unless the diagnosis is final.
func TestReason(t *testing.T) {
	const line = `level=fatal msg="Node password rejected, duplicate hostname"`
	for _, active := range []string{"active", "deactivating"} {
		_, known := State{Active: active, Journal: []string{line}}.Diagnosis()
		assert.False(t, known, active)
	}
	d, known := State{Active: "failed", Journal: []string{line}}.Diagnosis()
	assert.True(t, known && d.NodePassword())
	assert.False(t, Diagnosis{}.NodePassword())
	assert.Equal(t, "its last run ended: x", State{Active: "failed", Ended: "x"}.Reason())
	assert.Empty(t, State{Active: "failed"}.Reason())
	assert.Equal(t, "/x", ForeignFile{Path: "/x"}.String())
	assert.Equal(t, "/x (a, b)", ForeignFile{Path: "/x", Keys: []string{"a", "b"}}.String())
}

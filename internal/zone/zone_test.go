package zone

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/pages"
)

var update = flag.Bool("update", false, "rewrite what docs/platform.md shows")

func ref(t *testing.T, text string) spec.SecretRef {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	out, err := spec.ParseSecretRef("file:" + file)
	require.NoError(t, err)
	return out
}

const (
	secret = "c2VjcmV0LW9mLXRoZS1rZXktb2YtMzItYnl0ZXMhISE=" // of the keys of the name server
	other  = "b3RoZXItc2VjcmV0LW9mLXRoZS1rZXktb2YtMzItYnl0"
)

// named runs BIND on the loopback interface with a zone that the key "homelab" may change and transfer,
// "updates" only change, and "nothing" neither.
func named(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("named")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no named: apt-get install bind9")
		}
		t.Skip("there is no named")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := free.Addr().(*net.TCPAddr)
	require.NoError(t, free.Close())
	dir := t.TempDir()
	var keys strings.Builder
	for _, name := range []string{"homelab", "updates", "nothing"} {
		fmt.Fprintf(&keys, "key %q { algorithm hmac-sha256; secret %q; };\n", name, secret)
	}
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("zone", "$TTL 60\n@ SOA ns.home.example. root.home.example. 1 60 60 60 60\n@ NS ns\nns A 127.0.0.1\n")
	write("named.conf", keys.String()+fmt.Sprintf(`
options {
	directory %q; pid-file none; session-keyfile none; managed-keys-directory %q; lock-file none;
	listen-on port %d { 127.0.0.1; }; listen-on-v6 { none; }; recursion no; dnssec-validation no; notify no;
};
controls { };
zone "home.example" {
	type primary; file "zone";
	allow-update { key homelab; key updates; }; allow-transfer { key homelab; };
};
`, dir, dir, addr.Port))
	cmd := exec.CommandContext(t.Context(), program, "-g", "-n", "1", "-c", filepath.Join(dir, "named.conf"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	log := &strings.Builder{}
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	require.Eventually(t, func() bool {
		m := new(dns.Msg).SetQuestion("home.example.", dns.TypeSOA)
		answer, err := dns.Exchange(m, addr.String())
		return err == nil && answer.Rcode == dns.RcodeSuccess
	}, 20*time.Second, 50*time.Millisecond, "named does not answer")
	return addr.String()
}

// TestNameServer compares what we say with what BIND answers.
func TestNameServer(t *testing.T) {
	at := named(t)
	said := map[string]string{}
	for name, c := range map[string]struct {
		zone, key, secret, algorithm string
		records                      bool
		want                         string
	}{
		"all is right":                   {"home.example", "homelab", secret, "hmac-sha256", true, ""},
		"a key that may only change":     {"home.example", "updates", secret, "hmac-sha256", false, ""},
		"a key that may not transfer":    {"home.example", "updates", secret, "hmac-sha256", true, "does not let the key updates transfer this zone"},
		"a key that may do nothing":      {"home.example", "nothing", secret, "hmac-sha256", false, "does not let the key nothing change this zone"},
		"a key of another server":        {"home.example", "stranger", secret, "hmac-sha256", false, "does not know the key stranger"},
		"the key with another algorithm": {"home.example", "homelab", secret, "hmac-sha512", false, "does not know the key homelab with hmac-sha512"},
		"another secret":                 {"home.example", "homelab", other, "hmac-sha256", false, "another secret for the key homelab"},
		"a secret in other letters":      {"home.example", "homelab", "not base64!", "hmac-sha256", false, "not in base64"},
		"a zone of another server":       {"work.example", "homelab", secret, "hmac-sha256", false, "does not serve this zone"},
		"a name within a zone":           {"lab.home.example", "homelab", secret, "hmac-sha256", false, "does not serve this zone"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &spec.DNS{Zones: []string{c.zone}, RFC2136: &spec.RFC2136{Server: at, Key: c.key, Secret: ref(t, c.secret), Algorithm: c.algorithm}}
			if c.records {
				d.Records = spec.On
			}
			err := Check(t.Context(), d)
			if c.want == "" {
				assert.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			assert.NotContains(t, err.Error(), c.secret)
			said[name] = strings.ReplaceAll(err.Error(), at, "192.168.1.2:53")
		})
	}
	pages.Compare(t, "docs/platform.md", "rfc2136", said["a key that may not transfer"]+"\n"+said["a name within a zone"], *update)
	answer, err := dns.Exchange(new(dns.Msg).SetQuestion("home.example.", dns.TypeSOA), at)
	require.NoError(t, err)
	assert.EqualValues(t, 1, answer.Answer[0].(*dns.SOA).Serial, "a question changed the zone")
}

// TestUnreachable: a service that cannot be reached is an error with its cause.
func TestUnreachable(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	at := closed.Addr().String()
	for _, d := range []*spec.DNS{
		{Zones: []string{"home.example"}, Cloudflare: &spec.Cloudflare{Token: ref(t, token)}},
		{Zones: []string{"home.example"}, Route53: &spec.Route53{AccessKey: accessKey, SecretKey: ref(t, awsSecret)}},
		{Zones: []string{"home.example"}, RFC2136: &spec.RFC2136{Server: at, Key: "k", Secret: ref(t, secret), Algorithm: "hmac-sha256"}},
	} {
		require.ErrorIs(t, checker{"http://" + at, "http://" + at}.check(t.Context(), d), syscall.ECONNREFUSED)
	}
	assert.NoError(t, Check(t.Context(), &spec.DNS{Zones: []string{"home.example"}, Webhook: &spec.ACMEWebhook{}}))
}

// TestOnLoopback: a lab asks a name server or an API only on this machine.
func TestOnLoopback(t *testing.T) {
	flare, aws := &spec.DNS{Cloudflare: &spec.Cloudflare{}}, &spec.DNS{Route53: &spec.Route53{}}
	assert.False(t, OnLoopback(nil))
	assert.False(t, OnLoopback(flare))
	assert.False(t, OnLoopback(aws))
	assert.False(t, OnLoopback(&spec.DNS{Webhook: &spec.ACMEWebhook{}}))
	assert.False(t, OnLoopback(&spec.DNS{RFC2136: &spec.RFC2136{Server: "192.168.1.2:53"}}))
	assert.True(t, OnLoopback(&spec.DNS{RFC2136: &spec.RFC2136{Server: "127.0.0.1:53"}}))
	t.Setenv("CLOUDFLARE_BASE_URL", "http://127.0.0.1:8080/client/v4")
	t.Setenv("AWS_ENDPOINT_URL_ROUTE_53", "http://192.168.1.2:4566")
	assert.True(t, OnLoopback(flare))
	assert.False(t, OnLoopback(aws))
}

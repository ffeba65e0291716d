package guest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// recordings are what a real K3s was recorded to say: each journal, by "FILE: MACHINE, ROLE and what is
// special", as k3s/testdata/real has it.
func recordings(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../../k3s/testdata/real/*.txt")
	require.NoError(t, err)
	out := map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for part := range strings.SplitSeq("\n"+string(text), "\n\n") {
			title, rest, _ := strings.Cut(strings.TrimSpace(part), "\n")
			if what, ok := strings.CutPrefix(title, "@ "); ok {
				out[filepath.Base(file)+": "+what] = strings.Split(rest, "\n")
			}
		}
	}
	return out
}

var (
	said = regexp.MustCompile(`^time="?[^ "]+"? level=(\w+) msg=(".*")$`)
	// unlike are words that differ between two runs of the real thing.
	unlike = []struct{ re, by string }{
		{`\b[0-9a-f]{64}\b`, "HASH"},
		{`10\.0\.0\.[0-9]+:[0-9]{5}\b`, "CLIENT"},
		{`10\.0\.0\.[0-9]+`, "ADDRESS"},
		{`ContentLength=[0-9]+`, "ContentLength=N"},
		{`(read tcp [^ ]+: )?read: connection reset by peer|EOF`, "CUT"},
		{`\bk3s (agent )?v[^ ]+ \([0-9a-f]+\)`, "k3s ${1}VERSION"},
	}
	// aside is what the simulator leaves out: what a control plane says of its own beginning.
	aside = regexp.MustCompile(`(503 response to|learner management|Failed to list nodes with etcd role|Bootstrap key already|from supervisor|read tcp .*2379|Error while dialing)`)
)

// telling are the messages of a journal that say why K3s does not run, each once, without what
// differs from run to run.
func telling(journal []string) []string {
	var out []string
	for _, line := range journal {
		m := said.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		msg, err := strconv.Unquote(m[2])
		if err != nil || aside.MatchString(msg) {
			continue
		}
		if m[1] == "info" && !strings.Contains(msg, "server is not ready") && !strings.HasPrefix(msg, "Starting k3s") &&
			!strings.Contains(msg, "Node authorization rejected") && !strings.Contains(msg, "has been removed from the cluster") {
			continue
		}
		for _, u := range unlike {
			msg = regexp.MustCompile(u.re).ReplaceAllString(msg, u.by)
		}
		if line = m[1] + " " + msg; !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// TestK3sWithAnotherToken: K5, as recorded.
func TestK3sWithAnotherToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		m := l.machine(11, nil)
		l.form(m)
		mustShell(t, m, "systemctl stop k3s")
		before := len(m.Journal("k3s"))
		put(t, m, "/etc/rancher/k3s/config.yaml", "cluster-init: true\nservice-cidr: 10.99.0.0/16\ntoken: another\n")
		mustShell(t, m, "systemctl start --no-block k3s")
		time.Sleep(30 * time.Second)
		assert.Equal(t, telling(recordings(t)["17-another-token.txt: cp1 server, the first, now another token"]), telling(m.Journal("k3s")[before:]))
	})
}

// TestK3sSaysWhatTheRealOneSays plays what was recorded of a real K3s, and compares the messages
// of the machine that is refused, and of the server that refuses it.
func TestK3sSaysWhatTheRealOneSays(t *testing.T) {
	recorded := recordings(t)
	const url = "server: https://10.0.0.11:6443\n"
	var token, hash string
	for _, test := range []struct {
		of, role string
		config   func() string
	}{
		{"04-agent-refused.txt: wk2 agent, wrong token", "agent", func() string { return url + "token: " + hash + "::server:wrong\n" }},
		{"04-agent-refused.txt: wk2 agent, token of another cluster", "agent", func() string { return url + "token: K10" + strings.Repeat("0", 64) + "::server:x\n" }},
		{"04-agent-refused.txt: wk2 agent, expired bootstrap token", "agent", func() string { return url + "token: " + hash + "::abcdef.0123456789abcdef\n" }},
		{"04-agent-refused.txt: wk2 agent, server not there", "agent", func() string { return "server: https://10.0.0.99:6443\ntoken: " + token + "\n" }},
		{"04-agent-refused.txt: wk2 agent, nothing listens there", "agent", func() string { return "server: https://10.0.0.22:6443\ntoken: " + token + "\n" }},
		{"04-agent-refused.txt: wk2 agent, no token", "agent", func() string { return url }},
		{"04-agent-refused.txt: wk2 agent, no server", "agent", func() string { return "token: " + token + "\n" }},
		{"04-agent-refused.txt: wk2 agent, a key that agents do not have", "agent", func() string { return url + "token: " + token + "\ntls-san: [a]\n" }},
		{"04-agent-refused.txt: wk2 agent, default-runtime without the toolkit", "agent", func() string { return url + "token: " + token + "\ndefault-runtime: nvidia\n" }},
		{"04-agent-refused.txt: wk2 agent, token without a hash", "agent", func() string { return url + "token: " + token[strings.LastIndex(token, ":")+1:] + "\n" }},
		{"06-name-taken.txt: wk3 agent, another machine of this name", "agent", func() string { return url + "token: " + token + "\nnode-name: n11\n" }},
		{"31-v1.35.0-agent-refused.txt: wk2 agent, wrong token", "agent", func() string { return url + "token: " + hash + "::server:wrong\n" }},
		{"31-v1.35.0-agent-refused.txt: wk2 agent, token of another cluster", "agent", func() string { return url + "token: K10" + strings.Repeat("0", 64) + "::server:x\n" }},
		{"31-v1.35.0-agent-refused.txt: wk3 agent, another machine of this name", "agent", func() string { return url + "token: " + token + "\nnode-name: n11\n" }},
		{"11-server-refused.txt: cp4 server, wrong token", "server", func() string { return url + "token: " + hash + "::server:wrong\nservice-cidr: 10.99.0.0/16\n" }},
		{"11-server-refused.txt: cp4 server, bootstrap token", "server", func() string { return url + "token: %BOOTSTRAP%\nservice-cidr: 10.99.0.0/16\n" }},
		{"11-server-refused.txt: cp4 server, token of another cluster", "server", func() string { return url + "token: K10" + strings.Repeat("0", 64) + "::server:x\n" }},
		{"11-server-refused.txt: cp4 server, the other server is not there", "server", func() string { return "server: https://10.0.0.99:6443\ntoken: " + token + "\n" }},
		{"11-server-refused.txt: cp4 server, other service-cidr", "server", func() string { return url + "token: " + token + "\n" }},
		{"11-server-refused.txt: cp4 server, other cluster-cidr", "server", func() string {
			return url + "token: " + token + "\nservice-cidr: 10.99.0.0/16\ncluster-cidr: 10.98.0.0/16\n"
		}},
		{"11-server-refused.txt: cp4 server, other secrets-encryption", "server", func() string {
			return url + "token: " + token + "\nservice-cidr: 10.99.0.0/16\nsecrets-encryption: true\n"
		}},
		{"11-server-refused.txt: cp4 server, an unknown key, and a name that another server has", "server", func() string {
			return url + "token: " + token + "\nservice-cidr: 10.99.0.0/16\nno-such-key: 1\nnode-name: n11\n"
		}},
	} {
		t.Run(test.of, func(t *testing.T) {
			journal, ok := recorded[test.of]
			require.True(t, ok, "there is no such recording")
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				first := l.machine(11, nil)
				token = l.form(first)
				hash, _, _ = strings.Cut(token, "::")
				config := test.config()
				if strings.Contains(config, "%BOOTSTRAP%") {
					config = strings.ReplaceAll(config, "%BOOTSTRAP%", strings.TrimSpace(mustShell(t, first, "k3s token create")))
				}
				m := l.machine(22, nil)
				l.k3s(m, test.role, config)
				time.Sleep(45 * time.Second)
				have := telling(m.Journal(map[string]string{"agent": "k3s-agent", "server": "k3s"}[test.role]))
				assert.Equal(t, telling(journal), have)
				m.Kill()
				require.NoError(t, l.net.Close())
			})
		})
	}
}

// TestK3sTokens holds what k3s token prints to the recording, and what tokens open to K3s' rules.
func TestK3sTokens(t *testing.T) {
	text, err := os.ReadFile("../../k3s/testdata/real/02-tokens.txt")
	require.NoError(t, err)
	form := regexp.MustCompile(`[a-z0-9]{6}\.[a-z0-9]{16}|"[a-z0-9]{6}"|bootstrap-token-[a-z0-9]{6}|K10[0-9a-f]+::|\b[a-z0-9]{6} +(59m|60m|1h|23h|24h|1d|<forever>) |20\d\d-\d\d-\d\dT[0-9:]+Z`)
	plain := func(s string) string {
		return form.ReplaceAllString(regexp.MustCompile(` +`).ReplaceAllString(s, " "), "~")
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		first := l.machine(11, nil)
		l.form(first)
		var ids []string
		for _, args := range []string{"--ttl 1h --description 'homelab: lab/wk1'", "", "--ttl 0"} {
			token := strings.TrimSpace(mustShell(t, first, "k3s token create "+args))
			ids = append(ids, token[strings.LastIndex(token, ":")+1:strings.LastIndex(token, ".")])
		}
		for _, command := range []string{"list", "delete " + ids[1], "delete " + ids[1], "delete nonsense", "delete"} {
			code, out := shellAs(first, "root", "k3s token "+command)
			for line := range strings.Lines(out) {
				assert.Contains(t, plain(string(text)), strings.TrimRight(plain(line), "\n"), "k3s token %s", command)
			}
			assert.Equal(t, map[bool]int{true: 1}[strings.Contains(out, "level=fatal")], code)
		}
		time.Sleep(2 * time.Hour)
		out := mustShell(t, first, "k3s token list")
		assert.NotContains(t, out, ids[0], "it has expired")
		assert.Contains(t, out, ids[2], "it never expires")
	})
}

// TestAgentKeepsItsPlace: an agent starts again although its token is gone, as long as it has the
// certificate of its node, as recorded.
func TestAgentKeepsItsPlace(t *testing.T) {
	recorded := recordings(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		first := l.machine(11, nil)
		l.form(first)
		m := l.machine(21, nil)
		token := strings.TrimSpace(mustShell(t, first, "k3s token create --ttl 1h"))
		id := token[strings.LastIndex(token, ":")+1 : strings.LastIndex(token, ".")]
		l.k3s(m, "agent", "server: https://10.0.0.11:6443\ntoken-file: /etc/rancher/k3s/token\n")
		put(t, m, "/etc/rancher/k3s/token", token)
		again := func() []string {
			before := len(m.Journal("k3s-agent"))
			mustShell(t, m, "systemctl restart --no-block k3s-agent")
			time.Sleep(time.Minute)
			return telling(m.Journal("k3s-agent")[before:])
		}
		again()
		assert.Equal(t, "active\n", mustShell(t, m, "systemctl is-active k3s-agent"))

		mustShell(t, first, "k3s token delete "+id)
		assert.Equal(t, telling(recorded["03-agent-bootstrap-token.txt: wk1 agent, starts again with the deleted token"]), again())
		assert.Equal(t, "active\n", mustShell(t, m, "systemctl is-active k3s-agent"))

		mustShell(t, m, "rm "+clientKubelet)
		assert.Equal(t, telling(recorded["04-agent-refused.txt: wk2 agent, expired bootstrap token"]), again(), "without its certificate it needs a token")
	})
}

const clientKubelet = "/var/lib/rancher/k3s/agent/client-kubelet.crt"

// TestAgentOfAStartingServer: a server that starts again refuses a good token for a while, in two ways,
// and the agent that asks then gets in.
func TestAgentOfAStartingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		first := l.machine(11, func(c *machine.Config) { c.Faults.StartsSlowly = true })
		l.form(first)
		token := strings.TrimSpace(mustShell(t, first, "k3s token create --ttl 1h"))
		agent := l.machine(21, nil)
		mustShell(t, first, "systemctl stop k3s")
		l.k3s(agent, "agent", "server: https://10.0.0.11:6443\ntoken: "+token+"\n")
		time.Sleep(time.Second)
		mustShell(t, first, "systemctl start --no-block k3s")
		time.Sleep(30 * time.Second)
		require.Equal(t, "active\n", mustShell(t, agent, "systemctl is-active k3s-agent"))
		assert.Equal(t, telling(recordings(t)["36-agent-of-a-starting-server.txt: wk1 agent, its server starts"]), telling(agent.Journal("k3s-agent")))

		late := l.machine(22, nil) // it asks when the server knows no tokens yet
		mustShell(t, first, "systemctl restart --no-block k3s")
		time.Sleep(13 * time.Second)
		l.k3s(late, "agent", "server: https://10.0.0.11:6443\ntoken: "+token+"\n")
		time.Sleep(20 * time.Second)
		require.Equal(t, "active\n", mustShell(t, late, "systemctl is-active k3s-agent"))
		const refused = "failed to retrieve configuration from server: not authorized"
		assert.Equal(t, 1, strings.Count(strings.Join(late.Journal("k3s-agent"), "\n"), refused))
	})
}

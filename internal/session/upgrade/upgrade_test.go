package upgrade

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/secret"
)

const rest = `
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes:
  server1: {role: server, address: 10.0.0.11}
`

// One line changes, however it is written; everything else stays as it is.
func TestOnlyTheVersionChanges(t *testing.T) {
	for name, x := range map[string]struct{ text, line, want string }{
		"block":   {"name: a\nk3s:\n  # ours\n  version: v1.36.5+k3s1 # pinned\n  disable: [traefik]\n", "4", "  version: v1.36.6+k3s1 # pinned"},
		"quoted":  {"name: a\nk3s:\n  version: \"v1.36.5+k3s1\"\n", "3", `  version: "v1.36.6+k3s1"`},
		"flow":    {"name: a\nk3s: {disable: [traefik], version: v1.36.5+k3s1} # all\n", "2", "k3s: {disable: [traefik], version: v1.36.6+k3s1} # all"},
		"anchor":  {"name: a\nk3s:\n  version: &v v1.36.5+k3s1\n", "3", "  version: &v v1.36.6+k3s1"},
		"crlf":    {"name: a\r\nk3s:\r\n  version: v1.36.5+k3s1\r\n", "3", "  version: v1.36.6+k3s1"},
		"default": {"name: a\nk3s: # settings\n    disable: [traefik]\n", "3", "    version: v1.36.6+k3s1"},
	} {
		before := x.text + rest
		e, err := withVersion("cluster.yaml", []byte(before), "v1.36.6+k3s1")
		require.NoError(t, err, name)
		assert.Equal(t, x.want, e.is, name)
		was, is := strings.Split(before, "\n"), strings.Split(string(e.data), "\n")
		if name == "default" {
			assert.Equal(t, 3, e.line)
			assert.Empty(t, e.was)
			assert.Equal(t, was, append(is[:2:2], is[3:]...), name)
			continue
		}
		require.Len(t, is, len(was), name)
		differ := 0
		for i := range was {
			if was[i] != is[i] {
				differ++
				assert.Equal(t, e.line, i+1, name)
			}
		}
		assert.Equal(t, 1, differ, name)
	}
}

// Where a change would touch something else, the error says what to write and where.
func TestByHand(t *testing.T) {
	for name, x := range map[string]struct{ text, want string }{
		"no section": {"name: a\n", "cluster.yaml cannot be changed without touching something else: write version: v1.36.6+k3s1 under k3s: by hand (line 1), then run homelab cluster:up"},
		"flow":       {"name: a\nk3s: {disable: [traefik]}\n", "(line 2)"},
		"escaped":    {"name: a\nk3s:\n  version: \"v1.36.5\\u002bk3s1\"\n", "(line 3)"},
		"anchored":   {"x-k3s: &k3s\n  version: v1.36.5+k3s1\nname: a\nk3s: *k3s\n", ""},
		"no YAML":    {"name: [\n", "cluster.yaml:"},
		"wrong":      {"name: a\nk3s: {version: v1.36.5+k3s1}\nrancher: {hostname: r.home.arpa, version: 2.14.0}\n", ""},
	} {
		_, err := withVersion("cluster.yaml", []byte(x.text+rest), "v1.36.6+k3s1")
		require.ErrorContains(t, err, x.want, name)
	}
	for name, text := range map[string]string{
		"indented, without a section":  " name: a\n" + strings.ReplaceAll(rest, "\n", "\n "),
		"the section is the last line": "name: a" + rest + "k3s: {disable: [traefik]}",
	} {
		_, err := withVersion("cluster.yaml", []byte(strings.TrimRight(text, " ")), "v1.36.6+k3s1")
		require.ErrorContains(t, err, "by hand (line ", name)
	}
	_, err := withVersion("cluster.yaml", []byte("name: a\nk3s: {version: v1.36.5+k3s1}\n"+rest), "1.36")
	require.ErrorContains(t, err, `with version 1.36 the file would be wrong, so it stays as it is: cluster.yaml:2:`)
}

// Without a file to write into nothing is done.
func TestUpgradeWithoutAFile(t *testing.T) {
	o := session.Options{Spec: filepath.Join(t.TempDir(), "none.yaml"), Console: &console.Console{Talk: &bytes.Buffer{}, Data: &bytes.Buffer{}, Redact: &secret.Redactor{}}}
	require.ErrorContains(t, K3s(t.Context(), o, session.UpgradeFlags{To: "v1.36.6+k3s1"}), "none.yaml")
}

func TestRewrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	text := "name: a\nk3s: {version: v1.36.5+k3s1} # ours\n" + rest
	require.NoError(t, os.WriteFile(file, []byte(text), 0o640))
	var said bytes.Buffer
	try := func(to string, yes bool) error {
		s, err := session.Load(session.Options{Spec: file, Console: &console.Console{Talk: &said, Data: &said, Redact: &secret.Redactor{}}})
		require.NoError(t, err)
		f := session.UpgradeFlags{To: to}
		f.Yes = yes
		return rewrite(context.Background(), s, f)
	}
	code := func(err error) int {
		var ours *session.Error
		require.True(t, errors.As(err, &ours), "%v", err)
		return ours.Code
	}
	same := func() {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, text, string(b))
	}
	assert.Equal(t, 3, code(try("", true)))
	assert.Equal(t, 3, code(try("latest", true)))
	err := try("v1.36.4+k3s1", true)
	assert.Equal(t, 3, code(err))
	require.ErrorContains(t, err, "cannot be downgraded")
	require.ErrorContains(t, try("v1.38.0+k3s1", true), "write a v1.37 release first")
	assert.Equal(t, 4, code(try("v1.36.6+k3s1", false)), "nobody is here to ask")
	same()
	require.NoError(t, try("v1.36.6+k3s1", true))
	assert.Contains(t, said.String(), file+", line 2:\n- k3s: {version: v1.36.5+k3s1} # ours\n+ k3s: {version: v1.36.6+k3s1} # ours\n")
	text = strings.Replace(text, "v1.36.5", "v1.36.6", 1)
	same()
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.EqualValues(t, 0o640, info.Mode().Perm())
	require.NoError(t, try("v1.36.6+k3s1", true))
	assert.Contains(t, said.String(), "says v1.36.6+k3s1 already")
}

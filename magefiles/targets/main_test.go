package targets

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// others are targets of the magefile, as Mage describes them.
func others(word string) (*Verb, []string) {
	names := []string{"cluster:up", "say", "infra:deploy"}
	switch strings.ToLower(word) {
	case "say":
		return parseHelp("say", "Say says it.\n\nUsage:\n\n\tmage say <what> [-loud=<bool>]\n\nFlags:\n\n\t-loud=<bool>  with a louder voice\n\n"), names
	case "infra:deploy":
		return parseHelp("infra:deploy", "Usage:\n\n\tmage infra:deploy <where> <times> [<flags>]\n\nFlags:\n\n\t-dry=<bool>          only look\n\t-Wait=<time.Duration>\n\n"), names
	}
	return nil, names
}

// A line of our targets alone is read whole, with flags as Mage has them and as everybody else has them.
func TestMainReadsALine(t *testing.T) {
	l, err := read(strings.Fields("Cluster:Up -yes --REPORT=x.html -timeout=1h30m gpu:verify -level=full lab:status -json=false"), nil, others)
	require.NoError(t, err)
	assert.False(t, l.mage)
	require.Len(t, l.calls, 3)
	assert.Equal(t, map[string]any{"yes": true, "report": "x.html", "timeout": 90 * time.Minute}, l.calls[0].values)
	assert.Equal(t, "gpu:verify", l.calls[1].verb.Name)
	assert.Equal(t, map[string]any{"level": "full"}, l.calls[1].values)
	assert.Equal(t, map[string]any{"json": false}, l.calls[2].values)
}

// What is not ours alone is for Mage: its flags, targets and aliases of the magefile.
func TestMainLeavesTheRestToMage(t *testing.T) {
	aliases := []map[string]any{{"u": nil}}
	for _, text := range []string{"-l", "-v cluster:up", "-h say", "-h", "say hello -loud", "cluster:up -yes say hello", "say cluster:up", "Infra:deploy here 2 -dry -wait=1m cluster:up", "infra:deploy here", "u -yes", "cluster:plan U"} {
		l, err := read(strings.Fields(text), aliases, others)
		require.NoError(t, err, text)
		assert.True(t, l.mage, text)
		assert.Empty(t, l.help, text)
	}
}

// A mistake is told before anything runs, with what to write.
func TestMainRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"cluster:pln":                      `"cluster:pln" is not a target: did you mean cluster:plan? go tool mage -l lists them`,
		"infra:deplyo here":                "did you mean infra:deploy?",
		"cluster:up cluster:pln":           "did you mean cluster:plan?",
		"cluster:plan -spec x.yaml":        "-spec x.yaml: write -spec=x.yaml, in one word",
		"cluster:plan -spec":               "-spec needs a value: write -spec=…",
		"cluster:plan -spec -json":         "-spec needs a value: write -spec=…",
		"cluster:plan -spce=x.yaml":        "cluster:plan has no flag -spce (is -spec meant?); it has -charts, -json, ",
		"cluster:plan -timeout=soon":       `invalid argument "soon"`,
		"cluster:plan spec=x.yaml":         "did you mean the flag -spec=x.yaml?",
		"lab:start -x":                     "lab:start has no flag -x, nor any other",
		"up":                               "did you mean cluster:up?",
		"Status":                           "did you mean cluster:status, fleet:status or lab:status?",
		"lab":                              "did you mean lab:start, lab:status or lab:stop?",
		"help":                             "go tool mage -h cluster:up shows the flags of one",
		"cluster:up -destroy=a -yes=maybe": `invalid argument "maybe"`,
	} {
		_, err := read(strings.Fields(text), nil, others)
		require.ErrorContains(t, err, want, text)
		assert.ErrorContains(t, err, "othing was done", text)
	}
}

// Help has a line for each flag.
func TestHelpOfATarget(t *testing.T) {
	for _, text := range []string{"cluster:up -h", "-h cluster:up", "--help Cluster:up", "cluster:up -yes --help"} {
		l, err := read(strings.Fields(text), nil, others)
		require.NoError(t, err)
		assert.Regexp(t, `^cluster:up: creates or changes`, l.help)
		assert.Regexp(t, `\n  -destroy=A,B +agree to destroy these machines\n`, l.help)
		assert.Regexp(t, `\n  -yes +do not ask`, l.help)
	}
}

// Targets of other packages have the same help.
func TestHelpOfAnotherTarget(t *testing.T) {
	for text, want := range map[string]string{
		"say hello -h":                      "say: says it.\n\n  -loud  with a louder voice\n",
		"cluster:up infra:deploy here 2 -h": "infra:deploy: \n\n  -dry                   only look\n  -wait=<time.Duration>  \n",
	} {
		l, err := read(strings.Fields(text), nil, others)
		require.NoError(t, err)
		assert.Equal(t, want, l.help)
	}
}

// What Mage prints has the names of the targets of any package.
func TestTargetsThatTheProgramLists(t *testing.T) {
	assert.Equal(t, []string{"cluster:up", "infra:deploy"}, parseList("A cluster.\n\nTargets:\n  cluster:up*     creates\n  infra:deploy    deploys it\n\n* default target\n"))
	assert.Empty(t, parseList(""))
}

// Each verb is a command, and its flags fill its options.
func TestCommandsAreTheVerbs(t *testing.T) {
	count := 0
	all := &cobra.Command{Use: "homelab"}
	AddCommands(all)
	for _, noun := range all.Commands() {
		assert.NotEmpty(t, noun.Short, noun.Name())
		for _, c := range noun.Commands() {
			count++
			assert.NotEmpty(t, c.Short, c.CommandPath())
		}
	}
	assert.Len(t, Verbs(), count)

	type options struct {
		FileOptions
		LimitOptions
		Gone bool `help:"it is gone"`
		Size int  `help:"2: how many"`
	}
	var got options
	v := verb("thing:do", "ThingDo", func(_ context.Context, o options) error { got = o; return nil }, "does it.")
	root := &cobra.Command{Use: "homelab"}
	root.AddCommand(v.command("do"))
	assert.Zero(t, Execute(t.Context(), root, []string{"do", "--spec", "x.yaml", "--gone", "-size=3", "--timeout", "1m"}))
	assert.Equal(t, options{FileOptions{"x.yaml"}, LimitOptions{time.Minute}, true, 3}, got)
	assert.Equal(t, 3, Execute(t.Context(), root, []string{"do", "--spce=x"}))
	assert.Equal(t, 3, Execute(t.Context(), root, []string{"do", "what"}))
	assert.Equal(t, 3, Execute(t.Context(), all, []string{"cluster", "pln"}))
	assert.Equal(t, 3, Execute(t.Context(), all, []string{"clster", "plan"}))
	assert.Zero(t, Execute(t.Context(), all, []string{"cluster:plan", "-h"}), "as the targets are called")
}

// A command that fails returns its error to its caller, with its exit code.
func TestFunctionsReturnErrors(t *testing.T) {
	var o ClusterValidateOptions
	o.Spec = t.TempDir() + "/none.yaml"
	var failed *Error
	require.ErrorAs(t, ClusterValidate(t.Context(), o), &failed)
	assert.Equal(t, 3, failed.ExitStatus())
	require.ErrorAs(t, Cluster{}.Validate(t.Context(), &o.Spec), &failed)
	var up ClusterUpOptions
	up.Timeout = -1
	require.ErrorAs(t, ClusterUp(t.Context(), up), &failed)
	assert.Equal(t, 3, failed.ExitStatus())
	assert.Contains(t, failed.Error(), "write a duration")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := ClusterValidate(ctx, ClusterValidateOptions{})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 130, failed.ExitStatus())
	require.EqualError(t, err, "interrupted; run it again and it continues from here")
	up.Timeout = 1
	require.ErrorAs(t, ClusterUp(t.Context(), up), &failed)
	assert.Contains(t, failed.Error(), "timed out (-timeout)")
}

// TestCommandsInTexts: what the product says to run is one of its commands, and only a front end says how it is typed.
func TestCommandsInTexts(t *testing.T) {
	named := regexp.MustCompile(`(go tool mage|homelab) ([a-z0-9]+:[a-zA-Z]+)`)
	seen := 0
	for _, root := range []string{"cluster", "fleet", "internal", "jupyterhub", "k3s", "kube", "nvidia", "proxmox", "remote"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("../..", root), func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				seen++
				assert.Equal(t, "homelab", m[1], "%s: %s", path, m[0])
				assert.NotNil(t, find(Verbs(), m[2]), "%s: %s", path, m[0])
			}
			return err
		}))
	}
	assert.Greater(t, seen, 50)
}

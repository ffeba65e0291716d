package targets

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// magefile is set in the environment of this test's binary when it is to be a program that Mage has built.
const magefile = "HOMELAB_TEST_MAGEFILE"

// mageRuns is the exit code that says that Mage itself went on.
const mageRuns = 42

func TestMain(m *testing.M) {
	if os.Getenv(magefile) == "" {
		os.Exit(m.Run())
	}
	_ = Main(os.Args[1:], map[string]any{"short": nil})
	switch args := os.Args[1:]; {
	case os.Getenv(listing) == "":
		fmt.Println("Mage runs", args)
	case slices.Equal(args, []string{"-l"}):
		fmt.Print("Targets:\n  cluster:up     creates\n  infra:deploy   deploys\n")
	case slices.Equal(args, []string{"-h", "infra:deploy"}):
		fmt.Print("Usage:\n\n\tmage infra:deploy <where> [<flags>]\n\nFlags:\n\n\t-dry=<bool>  only look\n\n")
	default:
		os.Exit(1)
	}
	if os.Getenv(listing) == "" {
		os.Exit(mageRuns)
	}
	os.Exit(0)
}

// mage runs a command line as a program that Mage has built does.
func mage(t *testing.T, args ...string) (code int, out, talk string) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), magefile+"=1")
	cmd.Dir = t.TempDir()
	var data, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &data, &said
	if err := cmd.Run(); err != nil {
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended)
		code = ended.ExitCode()
	}
	return code, data.String(), said.String()
}

// Main ends the program for lines of its own targets, with their exit codes, and leaves everything else to Mage.
func TestMainEndsTheProgram(t *testing.T) {
	for line, want := range map[string]struct {
		code      int
		out, talk string
	}{
		"":                            {mageRuns, "Mage runs []", ""},
		"-l":                          {mageRuns, "Mage runs [-l]", ""},
		"short":                       {mageRuns, "Mage runs [short]", ""},
		"infra:deploy there -dry":     {mageRuns, "Mage runs [infra:deploy there -dry]", ""},
		"infra:deploy there -wet":     {3, "", "infra:deploy has no flag -wet"},
		"-h cluster:up":               {0, "cluster:up: ", ""},
		"cluster:up -h":               {0, "cluster:up: ", ""},
		"cluster:upp":                 {3, "", "did you mean cluster:up?"},
		"cluster:validate -spec=none": {3, "", "none"},
		"infra:destroy":               {3, "", "did you mean infra:deploy?"},
	} {
		code, out, talk := mage(t, strings.Fields(line)...)
		assert.Equal(t, want.code, code, "%q: %s%s", line, out, talk)
		assert.Contains(t, out, want.out, line)
		assert.Equal(t, want.out == "", out == "", "%q: %s", line, out)
		assert.Contains(t, talk, want.talk, line)
		assert.Equal(t, want.talk == "", talk == "", "%q: %s", line, talk)
	}
}

// Half of a target's name is answered with all targets that have it.
func TestHalfATarget(t *testing.T) {
	all := map[string][]string{}
	for _, v := range Verbs() {
		noun, name, _ := strings.Cut(v.Name, ":")
		all[noun], all[name] = append(all[noun], v.Name), append(all[name], v.Name)
	}
	for half, names := range all {
		err := unknown(half, nil, line{}, nil)
		slices.Sort(names)
		list := names[len(names)-1]
		if len(names) > 1 {
			list = strings.Join(names[:len(names)-1], ", ") + " or " + list
		}
		assert.EqualError(t, err, fmt.Sprintf("%q is not a target: did you mean %s? go tool mage -l lists them; nothing was done", half, list))
	}
}

// A flag is written with one dash or two; flags of one letter, and what follows two dashes, stay.
func TestTwoDashes(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "-h": "-h", "--spec=x": "--spec=x", "-spec=x": "--spec=x", "-on": "--on", "-o=x": "-o=x", "a-b -c": "a-b -c", "-": "-", "-yes -- -yes": "--yes -- -yes",
	} {
		before := strings.Fields(line)
		assert.Equal(t, strings.Fields(want), twoDashes(before), line)
		assert.Equal(t, strings.Fields(line), before)
	}
}

// A command that is nearly one is named, one that is none leads to the list, and the program itself prints each error, once.
func TestCommandsThatAreNone(t *testing.T) {
	root := &cobra.Command{Use: "homelab"}
	AddCommands(root)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	for line, want := range map[string]string{
		"pln": `homelab cluster has no command "pln": did you mean plan?`, "sttaus": `homelab cluster has no command "sttaus": did you mean status?`,
		"xyzzy": `homelab cluster has no command "xyzzy": homelab cluster -h lists them`,
	} {
		root.SetArgs([]string{"cluster", line})
		assert.EqualError(t, root.ExecuteContext(t.Context()), want)
		out.Reset()
		assert.Equal(t, 3, Execute(t.Context(), root, []string{"cluster", line}))
		assert.Empty(t, out.String())
	}
	assert.Zero(t, Execute(t.Context(), root, nil))
	assert.Contains(t, out.String(), "cluster")
	for _, v := range Verbs() {
		noun, name, _ := strings.Cut(v.Name, ":")
		out.Reset()
		assert.Zero(t, Execute(t.Context(), root, []string{noun, name, "-h"}))
		usage := "Usage:\n  homelab " + noun + " " + name
		require.Contains(t, out.String(), usage)
		for _, f := range v.Flags {
			assert.Contains(t, out.String(), "  --"+f.Name, "%s lists its flags", v.Name)
		}
		assert.Equal(t, 1, strings.Count(out.String(), "Usage:"))
	}
}

// The exit code is that of the error, and an answer is printed as it is.
func TestPrintError(t *testing.T) {
	for _, x := range []struct {
		err  error
		code int
		said string
	}{
		{nil, 0, ""}, {errors.New("it broke"), 1, "Error: it broke\n"}, {fmt.Errorf("one: %w", &Error{Code: 4, text: "no"}), 4, "Error: one: no\n"},
		{&Error{Code: 2, text: "something differs", Answer: true}, 2, "something differs\n"},
	} {
		code := 0
		said := onStderr(t, func() { code = printError(x.err) })
		assert.Equal(t, x.code, code)
		assert.Equal(t, x.said, said)
	}
}

// onStderr is what a function writes to standard error.
func onStderr(t *testing.T, do func()) string {
	t.Helper()
	file, err := os.Create(t.TempDir() + "/stderr")
	require.NoError(t, err)
	defer func(was *os.File) { os.Stderr = was }(os.Stderr)
	os.Stderr = file
	do()
	require.NoError(t, file.Close())
	said, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	return string(said)
}

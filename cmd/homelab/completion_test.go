package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asMage prints what Mage does, and writes down that it was asked.
const asMage = `#!/bin/sh
echo "$0 $*" >>"$ASKED"
[ "${0##*/}" = go ] && shift 2
case $* in
-l) printf 'A cluster.\n\nTargets:\n  cluster:status    shows\n  cluster:up*       creates or changes\n  lab:status        shows the lab\n  say               says\n\n* default target\n' ;;
'-h cluster:up') printf 'Up creates.\n\nUsage:\n\n\tmage cluster:up [<flags>]\n\nFlags:\n\n\t-spec=<string>  FILE: the file\n\t-yes=<bool>     do not ask\n\t-Loud=<bool>\n\n' ;;
'-h lab:status') printf 'Usage:\n\n\tmage lab:status [-json=<bool>]\n\nFlags:\n\n\t-json=<bool>  as JSON\n\n' ;;
'-h say') printf 'Usage:\n\n\tmage say <what> [-to=<string>]\n\n' ;;
*) exit 2 ;;
esac
`

// shell is a bash in which the script was sourced, in a folder with a magefile.
type shell struct {
	t           *testing.T
	dir, script string
	env         []string
}

func newShell(t *testing.T) shell {
	top := t.TempDir()
	s := shell{t: t, dir: filepath.Join(top, "a folder"), script: filepath.Join(top, "complete.bash")}
	bin := filepath.Join(top, "bin")
	require.NoError(t, os.MkdirAll(filepath.Join(s.dir, "charts"), 0o700))
	require.NoError(t, os.Mkdir(bin, 0o700))
	for _, name := range []string{"mage", "go"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(asMage), 0o700)) //nolint:gosec // a program
	}
	s.touch("magefile.go", -time.Hour)
	var script strings.Builder
	require.NoError(t, completion(&script, "bash"))
	require.NoError(t, os.WriteFile(s.script, []byte(script.String()), 0o600))
	s.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+filepath.Join(top, "cache"), "ASKED="+filepath.Join(top, "asked"))
	return s
}

func (s shell) touch(name string, when time.Duration) {
	path := filepath.Join(s.dir, name)
	require.NoError(s.t, os.WriteFile(path, nil, 0o600))
	at := time.Now().Add(when)
	require.NoError(s.t, os.Chtimes(path, at, at))
}

// tab presses the key after this line, and returns the words that bash then has.
func (s shell) tab(line string) []string {
	s.t.Helper()
	command, _, _ := strings.Cut(line, " ")
	cmd := exec.CommandContext(s.t.Context(), "bash", "--norc", "-c",
		`_other() { COMPREPLY=(theirs); }; complete -F _other go; source "$1"; COMP_LINE=$2 COMP_POINT=${#2}
f=$(complete -p "$3"); f=${f##*-F }; "${f%% *}" "$3"; printf '%s\n' "${COMPREPLY[@]}"`, "bash", s.script, line, command)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	require.NoError(s.t, err, string(out))
	return strings.Fields(string(out))
}

func (s shell) asked() int {
	for _, e := range s.env {
		if file, ok := strings.CutPrefix(e, "ASKED="); ok {
			text, _ := os.ReadFile(file) // none yet is none
			return strings.Count(string(text), "\n")
		}
	}
	return 0
}

// A shell completes targets, also behind the colon at which bash cuts words, and the flags
// of a target, from what Mage says of the folder.
func TestBashCompletesTargetsAndFlags(t *testing.T) {
	s := newShell(t)
	all := []string{"cluster:status", "cluster:up", "lab:status", "say"}
	for line, want := range map[string][]string{
		"mage ":                             all,
		"go tool mage ":                     all,
		"go tool mage cluster:up ":          all,
		"go tool mage cl":                   {"cluster:status", "cluster:up"},
		"go tool mage cluster:":             {"status", "up"},
		"go tool mage -h lab:s":             {"status"},
		"go tool mage -v -t 5m l":           {"lab:status"},
		"go tool mage Cluster:Up -":         {"-h", "-spec=", "-yes", "-Loud"},
		"mage cluster:up -yes -s":           {"-spec="},
		"mage cluster:up -spec=m":           {"magefile.go"},
		"mage cluster:up lab:status -":      {"-h", "-json"},
		"mage say hello -t":                 {"-to="},
		"mage -":                            {"-l", "-h", "-d", "-w", "-t", "-v", "-f"},
		"mage nothing:such -l":              {"-l"},
		"go tool mage -d charts cluster:u":  {"up"},
		"go tool mage -d nowhere cluster:u": {},
		"go build ./":                       {"theirs"},
		"go tool ":                          {"theirs"},
	} {
		assert.Equal(t, want, s.tab(line), line)
	}
}

// Mage is asked once, and again after a change of the sources.
func TestCompletionAsksMageOnce(t *testing.T) {
	s := newShell(t)
	for range 2 {
		s.tab("mage cluster:up -")
	}
	assert.Equal(t, 2, s.asked(), "for the targets, and for one's flags")
	s.touch("own.go", time.Hour)
	s.tab("mage ")
	assert.Equal(t, 3, s.asked())
}

// Every shell has the same program, quoted as that shell reads it.
func TestCompletionOfEveryShell(t *testing.T) {
	words, err := files.ReadFile("files/complete.sh")
	require.NoError(t, err)
	for _, name := range []string{"bash", "zsh", "fish"} {
		var script strings.Builder
		require.NoError(t, completion(&script, name))
		quote, escapes := `'\''`, []string{`'\''`, "'"}
		if name == "fish" {
			quote, escapes = `\'`, []string{`\\`, `\`, `\'`, "'"}
		}
		_, text, ok := strings.Cut(script.String(), "_homelab_words")
		require.True(t, ok)
		text = strings.TrimLeft(text, "= '")
		end := "'\n\n"
		text, _, ok = strings.Cut(text, end)
		require.True(t, ok)
		assert.Contains(t, text, quote, name)
		assert.Equal(t, string(words), strings.NewReplacer(escapes...).Replace(text), name)
	}
	require.ErrorContains(t, completion(&strings.Builder{}, "tcsh"), "write bash, zsh or fish")
	assert.Equal(t, 3, command(t.Context(), []string{"completion", "tcsh"}))
}

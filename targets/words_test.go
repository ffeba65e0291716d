package targets

import (
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nobody knows other targets.
func nobody(string) (target, bool, []string) { return target{}, false, nil }

// Targets of a magefile that imports these may take words, as Mage allows, and functions that
// are none to Mage are none here.
func TestJudgeKnowsTargetsOfOnesOwn(t *testing.T) {
	known, err := targets(source)
	require.NoError(t, err)
	own, err := targets(fstest.MapFS{"magefile.go": {Data: []byte(`package main

// Say says it, some times.
func Say(ctx context.Context, what string, times int, loud *bool) error { return nil }

func Not(p []string) error { return nil }
`)}})
	require.NoError(t, err)
	assert.Len(t, own, 1)
	maps.Copy(known, own)
	for _, args := range [][]string{{"say", "cluster:up", "2"}, {"say", "hello", "2", "-loud"}, {"say", "hello", "2", "cluster:up", "-yes"}, {"cluster:up", "say", "a", "1"}} {
		_, err := refuse(args, known, nobody)
		assert.NoError(t, err, args)
	}
	for _, args := range [][]string{{"say", "hello", "2", "more"}, {"not"}, {"say", "hello", "2", "-quiet"}, {"cluster:up", "hello"}} {
		_, err := refuse(args, known, nobody)
		assert.ErrorContains(t, err, "nothing was done", args)
	}
}

// Half of a target's name is answered with the targets that it may be half of.
func TestHalfATarget(t *testing.T) {
	known, err := targets(source)
	require.NoError(t, err)
	for word, want := range map[string]string{
		"up":      `"up" is not a target: did you mean cluster:up? go tool mage -l lists them`,
		"Status":  "did you mean cluster:status, fleet:status or lab:status?",
		"verify":  "did you mean backup:verify, gpu:verify or hub:verify?",
		"lab":     "did you mean lab:start, lab:status or lab:stop?",
		"cluster": "did you mean cluster:backup, cluster:certs, ",
		"help":    "go tool mage -l lists them, go tool mage -h cluster:up shows the flags of one",
		"upp":     "go tool mage -l lists them",
	} {
		_, err := refuse([]string{word}, known, nobody)
		assert.ErrorContains(t, err, want)
	}
}

const mine = `package main

// Aliases are short.
var Aliases = map[string]any{"u": targets.Cluster.Up, "s": Say, "x": other.Run}

// Say says it.
func Say(
	what string,
	loud *bool, // with a louder voice
	times *int, // 3: how often
	file *string,
) error { return nil }
`

// The help of a target is a line for each flag, in the words of its parameters, for targets
// of one's own too.
func TestHelpOfATarget(t *testing.T) {
	known, err := both(fstest.MapFS{"magefile.go": {Data: []byte(mine)}})
	require.NoError(t, err)
	for _, args := range [][]string{{"say", "hello", "-h"}, {"-h", "say"}, {"s", "hello", "--help"}} {
		help, err := refuse(args, known, nobody)
		require.NoError(t, err)
		assert.Contains(t, help, ": says it.\n\n  -loud           with a louder voice\n  -times=3        how often\n  -file=<string>  \n", args)
	}
	for name, target := range known {
		help := target.help()
		for _, o := range target.flags {
			assert.Contains(t, help, "\n  -"+o.name, name)
		}
	}
	help, err := refuse([]string{"cluster:up", "-h"}, known, nobody)
	require.NoError(t, err)
	assert.Regexp(t, `\n  -destroy=A,B +agree to destroy these machines\n`, help)
	assert.Regexp(t, `\n  -yes +do not ask`, help)
}

// An alias has the flags of its target.
func TestJudgeKnowsAliases(t *testing.T) {
	known, err := both(fstest.MapFS{"magefile.go": {Data: []byte(mine)}})
	require.NoError(t, err)
	for _, args := range [][]string{{"u", "-yes"}, {"S", "hello", "-LOUD"}, {"x", "-unheard", "of"}} {
		_, err := refuse(args, known, nobody)
		assert.NoError(t, err, args)
	}
	_, err = refuse([]string{"u", "-yse"}, known, nobody)
	assert.ErrorContains(t, err, "u has no flag -yse (is -yes meant?)")
}

// What Mage prints describes a target of any package.
func TestTargetsThatTheProgramLists(t *testing.T) {
	assert.Equal(t, []string{"cluster:up", "infra:deploy"}, listed("A cluster.\n\nTargets:\n  cluster:up*     creates\n  infra:deploy    deploys it\n\n* default target\n"))
	assert.Empty(t, listed(""))
	several := described("infra:deploy", "Deploy deploys it.\n\nUsage:\n\n\tmage infra:deploy <where> <times> [<flags>]\n\nFlags:\n\n\t-dry=<bool>          only look\n\t-Wait=<time.Duration>\n\n")
	assert.Equal(t, target{name: "infra:deploy", doc: "Deploy deploys it.", words: 2, flags: []option{
		{"dry", "bool", "only look"}, {"wait", "time.Duration", ""},
	}}, several)
	assert.Equal(t, []option{{"to", "string", ""}}, described("go", "\nUsage:\n\n\tmage go [-to=<string>]\n\n").flags)

	others := func(word string) (target, bool, []string) {
		return several, strings.EqualFold(word, several.name), []string{"cluster:up", several.name}
	}
	known, err := both(nil)
	require.NoError(t, err)
	_, err = refuse([]string{"Infra:deploy", "here", "2", "-dry", "cluster:up", "-yes"}, known, others)
	require.NoError(t, err)
	_, err = refuse([]string{"infra:deploy", "here", "2", "-dyr"}, known, others)
	require.ErrorContains(t, err, "is -dry meant?")
	_, err = refuse([]string{"infra:deplyo"}, known, others)
	require.ErrorContains(t, err, "did you mean infra:deploy?")
}

// Every flag of this repository's own magefile is explained, too.
func TestFlagsOfTheMagefileHaveHelp(t *testing.T) {
	known, err := both(os.DirFS("../magefiles"))
	require.NoError(t, err)
	require.Contains(t, known, "sim:faults")
	for name, target := range known {
		for _, o := range target.flags {
			assert.NotEmpty(t, o.help, "%s -%s", name, o.name)
		}
	}
}

// Tests and other functions that Mage does not call are not targets.
func TestOnlyTargetsAreTargets(t *testing.T) {
	known, err := both(nil)
	require.NoError(t, err)
	for name := range known {
		assert.Regexp(t, `^[a-z][a-z0-9]*:[a-z]+$`, name)
	}
}

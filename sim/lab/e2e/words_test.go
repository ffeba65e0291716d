package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A mistyped word is refused before anything happens, in our words, with what to write.
func TestWordsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"cluster:pln"}, 3, `"cluster:pln" is not a target: did you mean cluster:plan?`},
		{[]string{"gpu:lst"}, 3, "did you mean gpu:list?"},
		{[]string{"unheard-of"}, 3, "go tool mage -l lists them"},
		{[]string{"cluster:plan", "-spec", "x.yaml"}, 3, "-spec x.yaml: write -spec=x.yaml, in one word"},
		{[]string{"cluster:plan", "-spec"}, 3, "-spec needs a value: write -spec=…"},
		{[]string{"cluster:plan", "-spce=x.yaml"}, 3, "cluster:plan has no flag -spce (is -spec meant?); it has -charts, "},
		{[]string{"cluster:plan", "spec=x.yaml"}, 3, "did you mean the flag -spec=x.yaml?"},
		{[]string{"sim:guests", "-x"}, 3, "sim:guests has no flag -x, nor any other"},
		{[]string{"cluster:plan", "-spec=none.yaml", "-json"}, 3, "none.yaml: file does not exist: name another"},
		{[]string{"cluster:plan", "--help"}, 0, "cluster:plan: shows what cluster:up would do; "},
		{[]string{"cluster:plan", "-h"}, 0, "\n  -timeout=DURATION  stop after this time, e.g. 1h\n"},
		{[]string{"-t", "5m", "Cluster:Validate"}, 0, "eight-a100 is valid"},
	} {
		out, errs, code := u.run(t, x.args...)
		assert.Equal(t, x.code, code, "%v", x.args)
		assert.Contains(t, out+errs, x.want, "%v", x.args)
	}
}

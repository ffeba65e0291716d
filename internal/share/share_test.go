package share

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// taken are the cases of a share of a campaign with so many.
func taken(t *testing.T, value string, cases int) (numbers []int) {
	t.Helper()
	t.Setenv(Variable, value)
	c := Start(t, "of the test")
	for number := range cases {
		if c.Next() {
			numbers = append(numbers, number+1)
		}
	}
	assert.Equal(t, fmt.Sprintf("campaign: of the test: %d of %d cases run (HOMELAB_SHARE=%s)", len(numbers), cases, c.share), c.String())
	return numbers
}

func TestCasesOfAShare(t *testing.T) {
	assert.Equal(t, []int{1, 2, 3}, taken(t, "", 3), "everything runs without the variable")
	assert.Equal(t, []int{1, 2, 3}, taken(t, "all", 3))
	assert.Equal(t, []int{1, 2, 3}, taken(t, "1/1", 3))
	assert.Equal(t, []int{1, 11, 21}, taken(t, "1/10", 25))
	assert.Equal(t, []int{1, 4, 14, 24}, taken(t, "4/10", 25))
	assert.Equal(t, []int{1, 10, 20}, taken(t, "10/10", 25))
	assert.Equal(t, []int{1}, taken(t, "4/10", 3), "a small campaign is never left out")
}

// All shares together are the whole campaign, however large it is, and each has the
// first case.
func TestSharesMakeTheWhole(t *testing.T) {
	for n := 1; n <= 12; n++ {
		for cases := 1; cases <= 30; cases++ {
			times := make([]int, cases+1)
			for k := 1; k <= n; k++ {
				of := taken(t, fmt.Sprintf("%d/%d", k, n), cases)
				require.True(t, slices.Contains(of, 1), "%d/%d of %d", k, n, cases)
				for _, number := range of {
					times[number]++
				}
			}
			assert.Equal(t, n, times[1])
			for number := 2; number <= cases; number++ {
				assert.Equal(t, 1, times[number], "case %d of %d, n=%d", number, cases, n)
			}
		}
	}
}

// Of few long cases each share has one of n, and the tenths together have all.
func TestOneOf(t *testing.T) {
	seen := map[int]bool{}
	for k := 1; k <= 10; k++ {
		t.Setenv(Variable, fmt.Sprintf("%d/10", k))
		c, took := OneOf(t, 3, "tools"), 0
		for number := range 6 {
			if c.Next() {
				seen[number], took = true, took+1
			}
		}
		assert.Equal(t, 2, took, k)
	}
	assert.Len(t, seen, 6)
	t.Setenv(Variable, All)
	c := OneOf(t, 3, "tools")
	for range 3 {
		assert.True(t, c.Next())
	}
}

// fails is a test that notes what ended it.
type fails struct {
	testing.TB
	said string
}

func (f *fails) Helper()           {}
func (f *fails) Cleanup(func())    {}
func (f *fails) Fatal(args ...any) { f.said = fmt.Sprint(args...) }

func TestABadShareFailsTheTest(t *testing.T) {
	for _, bad := range []string{"0/10", "11/10", "3", "3/", "/10", "3/0", "-1/10", "a/b", "1/10/2", "ALL", " 1/10"} {
		t.Setenv(Variable, bad)
		f := &fails{TB: t}
		Start(f, "of the test")
		assert.Equal(t, "HOMELAB_SHARE="+bad+": write K/N with 1 ≤ K ≤ N, such as 3/10, or all", f.said)
	}
}

func TestShareOfACommit(t *testing.T) {
	dir, shallow := t.TempDir(), t.TempDir()
	run := func(args ...string) {
		_, err := git(t.Context(), dir, append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		require.NoError(t, err)
	}
	of := func(dir string) string {
		s, err := OfCommit(t.Context(), dir, 4)
		require.NoError(t, err)
		again, err := OfCommit(t.Context(), dir, 4)
		require.NoError(t, err)
		assert.Equal(t, s, again, "one commit has one share")
		return s
	}
	run("init", "-q", ".")
	shares := map[string]bool{}
	for i := range 40 {
		run("commit", "-q", "--allow-empty", "-m", fmt.Sprint(i))
		shares[of(dir)] = true
	}
	assert.Len(t, shares, 4, "40 commits reach all of them")
	run("clone", "-q", "--depth=1", "file://"+dir, shallow)
	assert.Equal(t, of(dir), of(shallow), "a shallow clone has the same")
	_, err := OfCommit(t.Context(), t.TempDir(), 4)
	require.ErrorContains(t, err, "git rev-parse")
}

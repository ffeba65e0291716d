// Package share is for tests: it says which cases of a campaign are in this run's share.
//
// A campaign is a loop over many cases of one kind: every request lost, every step killed. The
// variable HOMELAB_SHARE=K/N selects the first case, so that every kind runs every time, and
// each Nth case from the Kth on; N runs, with K from 1 to N, cover all. With "all", and
// without the variable, every case runs.
package share

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Variable names the environment variable, All is its value that selects every case.
const (
	Variable = "HOMELAB_SHARE"
	All      = "all"
)

// Campaign counts the cases of one loop.
type Campaign struct {
	share   share
	rotates bool // the first case is not in every share
	name    string
	seen    int
	taken   int
}

// share is K/N; the zero value selects all.
type share struct{ k, n int }

// Start starts a campaign. At the end of the test it logs how many cases were in the share. It
// fails the test if the variable is invalid.
func Start(t testing.TB, name string) *Campaign {
	t.Helper()
	s, err := parse(os.Getenv(Variable))
	if err != nil {
		t.Fatal(err)
	}
	c := &Campaign{share: s, name: name}
	t.Cleanup(func() { t.Log(c) })
	return c
}

// OneOf starts a campaign of few long cases, of which a run has one of n, another one for each share.
func OneOf(t testing.TB, n int, name string) *Campaign {
	t.Helper()
	c := Start(t, name)
	if c.share.n != 0 {
		c.share, c.rotates = share{c.share.k, n}, true
	}
	return c
}

// Next counts a case, and reports whether it is in the share. Call it in one goroutine, for
// every case, always in the same order.
func (c *Campaign) Next() bool {
	c.seen++
	takes := c.share.takes(c.seen) && (!c.rotates || c.share.has(c.seen))
	if takes {
		c.taken++
	}
	return takes
}

// String says how many cases were in the share.
func (c *Campaign) String() string {
	return fmt.Sprintf("campaign: %s: %d of %d cases run (%s=%s)", c.name, c.taken, c.seen, Variable, c.share)
}

// takes reports whether a case, counted from 1, is in the share.
func (s share) takes(number int) bool {
	return s.n == 0 || number == 1 || s.has(number)
}

// has reports whether the case is one of those that only this share has.
func (s share) has(number int) bool { return number%s.n == s.k%s.n }

func (s share) String() string {
	if s.n == 0 {
		return All
	}
	return fmt.Sprintf("%d/%d", s.k, s.n)
}

func parse(text string) (share, error) {
	if text == "" || text == All {
		return share{}, nil
	}
	wrong := fmt.Errorf("%s=%s: write K/N with 1 ≤ K ≤ N, such as 3/10, or %s", Variable, text, All)
	first, every, _ := strings.Cut(text, "/")
	k, err := strconv.Atoi(first)
	if err != nil {
		return share{}, wrong
	}
	n, err := strconv.Atoi(every)
	if err != nil || k < 1 || k > n {
		return share{}, wrong
	}
	return share{k, n}, nil
}
